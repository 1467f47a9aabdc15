from stratalog.broker.authorizer import AllowAll, Operation, ResourceType


def test_everything_is_allowed_without_an_authorizer():
    """Any operation on any resource by anybody."""
    for operation in Operation:
        for resource in ResourceType:
            assert AllowAll().allows("User:ANONYMOUS", "10.0.0.1", operation, resource, "x")


def test_numbers_are_kafkas():
    """The codes go over the wire in DescribeAcls and in authorized operations."""
    assert (Operation.READ, Operation.DESCRIBE_CONFIGS, Operation.TWO_PHASE_COMMIT) == (3, 10, 15)
    assert (ResourceType.TOPIC, ResourceType.CLUSTER, ResourceType.USER) == (2, 4, 7)
