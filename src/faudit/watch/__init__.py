"""Models and training loops that were not built with faudit: ``audit_model``, ``watch`` and ``control``.

The package and the function ``faudit.watch`` have one name. Python replaces the function by the package as soon as the
package is imported, so the package itself can be called.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class Callable(ModuleType):
    """A package that is called like the function of its name."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        from faudit.watch.loop import watch

        return watch(*args, **options)


sys.modules[__name__].__class__ = Callable
