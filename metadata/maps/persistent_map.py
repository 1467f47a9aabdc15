"""A map that never changes: changes give another map, which shares almost everything with the first.

The items lie in small dictionaries at the leaves of a tree that follows the bits of the key's hash. A change copies one
leaf and the nodes above it, so it costs the same for ten items and for a million; many changes at once copy each node
once. Source: P. Bagwell, "Ideal Hash Trees" (2001), with dictionaries in place of single items.
"""

from __future__ import annotations

from collections.abc import Collection, ItemsView, Iterator, Mapping, ValuesView
from typing import Any, Final, TypeVar, cast, overload

from stratalog.metadata.maps.uncollected import leave_out_of_collections

__all__ = ["PersistentMap", "changed"]

_BITS: Final = 6
_CHILDREN: Final = 1 << _BITS
_MASK: Final = _CHILDREN - 1
_LEAF_ITEMS_MAX: Final = 64
_LEAF_ITEMS_MERGED: Final = 16
"""So few items below a node lie in one leaf again."""
_DEPTH_MAX: Final = 10
"""The bits of a hash are used up by then; keys of equal hashes share a leaf however many they are."""
_GONE: Final = object()
"""The value of a key that is removed."""

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

_Node = Any
"""A leaf (``dict``), or 64 nodes (``tuple``)."""
_Change = tuple[int, Any, Any]
"""The hash of a key, the key, and its value or ``_GONE``."""
_EMPTY: Final[_Node] = {}


class PersistentMap(Mapping[K, V]):
    """An immutable mapping of hashable keys. Items come in no particular order."""

    __slots__ = ("_root", "_size")

    def __init__(self) -> None:
        """An empty map."""
        self._root: _Node = _EMPTY
        self._size = 0

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | T) -> V | T: ...
    def get(self, key: K, /, default: Any = None) -> Any:
        """The value of a key, or ``default``."""
        node = self._root
        if type(node) is tuple:
            code = hash(key)
            while type(node) is tuple:
                node = node[code & _MASK]
                code >>= _BITS
        return node.get(key, default)

    def __getitem__(self, key: K) -> V:
        found: Any = self.get(key, _GONE)
        if found is _GONE:
            raise KeyError(key)
        return cast("V", found)

    def __contains__(self, key: object) -> bool:
        return self.get(cast("K", key), _GONE) is not _GONE

    def __iter__(self) -> Iterator[K]:
        for leaf in self.leaves():
            yield from leaf

    def __len__(self) -> int:
        return self._size

    def items(self) -> ItemsView[K, V]:
        """The items, found without a search for each."""
        return _Items(self)

    def values(self) -> ValuesView[V]:
        """The values, found without a search for each."""
        return _Values(self)

    def updated(self, items: Mapping[K, V], removed: Collection[K] = ()) -> PersistentMap[K, V]:
        """The map without the keys of ``removed`` and with ``items``, which may name them again.

        Raises KeyError for one of ``removed`` that is not there.
        """
        for key in removed:
            if key not in self:
                raise KeyError(key)
        gone = set(removed).difference(items)
        changes: list[_Change] = [(hash(key), key, _GONE) for key in gone]
        changes += [(hash(key), key, value) for key, value in items.items()]
        result = PersistentMap[K, V]()
        result._size = self._size - len(gone) + sum(key not in self for key in items)
        result._root = _updated(self._root, 0, changes)
        return result

    def leaves(self) -> Iterator[Mapping[K, V]]:
        """The items in groups."""
        waiting = [self._root]
        while waiting:
            node = waiting.pop()
            if type(node) is tuple:
                waiting.extend(child for child in node if child)
            else:
                yield node


class _Items(ItemsView[K, V]):
    __slots__ = ()

    _mapping: PersistentMap[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        for leaf in self._mapping.leaves():
            yield from leaf.items()


class _Values(ValuesView[V]):
    __slots__ = ()

    _mapping: PersistentMap[Any, V]

    def __iter__(self) -> Iterator[V]:
        for leaf in self._mapping.leaves():
            yield from leaf.values()


def changed(held: Mapping[K, V], items: Mapping[K, V], removed: Collection[K] = ()) -> Mapping[K, V]:
    """The result of :meth:`PersistentMap.updated` for ``held``, as a plain dictionary while it is small.

    ``held`` comes from here, or is any small mapping.
    """
    if isinstance(held, PersistentMap):
        map_ = held.updated(items, removed)
        return map_ if len(map_) > _LEAF_ITEMS_MERGED else dict(map_)
    small = dict(held)
    for key in removed:
        del small[key]
    small.update(items)
    return small if len(small) <= _LEAF_ITEMS_MAX else PersistentMap[K, V]().updated(small)


def _updated(node: _Node, depth: int, changes: list[_Change]) -> _Node:
    """A node at ``depth`` after changes; the codes of these are what is left of the hashes there."""
    if type(node) is tuple:
        return _updated_children(node, depth, changes)
    leaf = dict(node)
    for _, key, value in changes:
        if value is _GONE:
            del leaf[key]
        else:
            leaf[key] = value
    if len(leaf) <= _LEAF_ITEMS_MAX or depth >= _DEPTH_MAX:
        leave_out_of_collections(leaf)
        return leaf
    shift = _BITS * depth
    return _updated_children((_EMPTY,) * _CHILDREN, depth, [(hash(key) >> shift, key, leaf[key]) for key in leaf])


def _updated_children(node: tuple[_Node, ...], depth: int, changes: list[_Change]) -> _Node:
    children = list(node)
    parts: dict[int, list[_Change]] = {}
    for code, key, value in changes:
        parts.setdefault(code & _MASK, []).append((code >> _BITS, key, value))
    for index, part in parts.items():
        children[index] = _updated(children[index], depth + 1, part)
    if any(value is _GONE for _, _, value in changes) and _are_few(children):
        leaf = {key: value for child in children for key, value in child.items()}
        leave_out_of_collections(leaf)
        return leaf
    return tuple(children)


def _are_few(children: list[_Node]) -> bool:
    """Whether the items of all children fit into one leaf."""
    return all(type(child) is dict for child in children) and sum(map(len, children)) <= _LEAF_ITEMS_MERGED
