"""Dynamic settings by resource."""

from stratalog.metadata.image.configs_image import CLUSTER_DEFAULT, ConfigResource, ConfigsDraft, ConfigsImage
from stratalog.wire.records.metadata import ConfigRecord


def _put(image, resource, name, value):
    draft = ConfigsDraft(image)
    record = ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
    draft.put(record)
    return draft.build()


def test_a_setting_is_set_and_removed():
    """Null removes it, and a resource without settings leaves no trace."""
    topic = ConfigResource.topic("t")
    image = _put(ConfigsImage(), topic, "retention.ms", "1")
    assert image.of(topic) == {"retention.ms": "1"}
    assert _put(image, topic, "retention.ms", None) == ConfigsImage()


def test_settings_of_other_resources_stay_the_same_objects():
    """Caches keyed by them stay valid."""
    one, other = ConfigResource.topic("one"), ConfigResource.broker(1)
    image = _put(_put(ConfigsImage(), one, "a", "1"), other, "b", "2")
    after = _put(image, CLUSTER_DEFAULT, "c", "3")
    assert after.of(one) is image.of(one)
    assert after.of(other) is image.of(other)


def test_a_draft_without_changes_gives_its_base_back():
    """An unchanged draft copies nothing."""
    image = _put(ConfigsImage(), CLUSTER_DEFAULT, "a", "1")
    assert ConfigsDraft(image).build() is image


def test_forgetting_a_resource_removes_all_of_it():
    """As when its topic is deleted; forgetting what is not there does nothing."""
    topic = ConfigResource.topic("t")
    draft = ConfigsDraft(_put(ConfigsImage(), topic, "a", "1"))
    draft.forget(topic)
    draft.forget(ConfigResource.topic("other"))
    assert draft.changed == {topic}
    assert draft.build().of(topic) == {}


def test_a_resource_without_settings_is_empty():
    """Callers need no second question."""
    assert ConfigsImage().of(ConfigResource.broker(7)) == {}
