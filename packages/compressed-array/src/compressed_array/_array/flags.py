"""`Flags`: the `a.flags` of a compressed array, whose decoded items are nowhere in memory."""

from __future__ import annotations

from typing import Any

# Numpy's names: flags that say something here, and flags about memory, which are always False.
NAMES = {
    "OWNDATA": "owndata", "O": "owndata", "WRITEABLE": "writeable", "W": "writeable", "ALIGNED": "aligned",
    "A": "aligned",
}  # fmt: skip
OF_MEMORY = {
    "C_CONTIGUOUS", "CONTIGUOUS", "C", "F_CONTIGUOUS", "FORTRAN", "F", "WRITEBACKIFCOPY", "X", "BEHAVED", "B", "CARRAY",
    "CA", "FARRAY", "FA", "FNC", "FORC",
}  # fmt: skip


class Flags:
    """Like numpy's flags object, shows the array's flags as they are now."""

    __slots__ = ("_array",)
    c_contiguous = contiguous = f_contiguous = fortran = writebackifcopy = False
    behaved = carray = farray = fnc = forc = False
    aligned = True

    def __init__(self, array: Any) -> None:
        self._array = array

    @property
    def owndata(self) -> bool:
        return self._array.base is None

    @property
    def writeable(self) -> bool:
        return bool(self._array.is_writeable)

    @writeable.setter
    def writeable(self, value: bool) -> None:
        self._array.setflags(write=value)

    @property
    def num(self) -> int:
        return 0x4 * self.owndata + 0x100 + 0x400 * self.writeable

    def __getitem__(self, name: str) -> bool:
        if name in OF_MEMORY:
            return False
        if name not in NAMES:
            raise KeyError("Unknown flag")
        return bool(getattr(self, NAMES[name]))

    def __setitem__(self, name: str, value: bool) -> None:
        if name not in ("WRITEABLE", "W"):
            raise KeyError("Unknown flag")
        self.writeable = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Flags) and self.num == other.num

    __hash__ = None  # type: ignore[assignment]  # as numpy's, which can change

    def __repr__(self) -> str:
        shown = ("C_CONTIGUOUS", "F_CONTIGUOUS", "OWNDATA", "WRITEABLE", "ALIGNED", "WRITEBACKIFCOPY")
        return "".join(f"  {name} : {self[name]}\n" for name in shown)
