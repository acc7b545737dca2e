"""What the page's hosts are asked to send with its files: one policy, one set of isolation headers.

The Content-Security-Policy stands in `web/index.html`; everything else reads it from there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from space.tools.machine import BuildError

# Shared WebAssembly memory, and so more than one thread on the CPU, needs the first two.
ISOLATION = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
}
# A host in `--model-host` and the addresses it sends a download on to: a policy counts those too.
_SENT_ON_TO = {"huggingface.co": ("*.huggingface.co", "*.hf.co")}

_META = re.compile(r'(<meta http-equiv="Content-Security-Policy" content=")([^"]*)(">)')
_MODE = re.compile(r'(<meta name="rushlight-isolation" content=")[^"]*(">)')
_HOST = re.compile(r"(?:https?://)?(?:\*\.)?[\w.-]+(?::(?:\d+|\*))?")
_CONNECT = re.compile(r"connect-src [^;]*")


def read_policy(index: Path) -> str:
    """The Content-Security-Policy of an index page; "" where there is no such page or policy."""
    try:
        found = _META.search(index.read_text(encoding="utf-8"))
    except OSError:
        return ""
    return found[2] if found else ""


def narrowed(policy: str, hosts: Sequence[str]) -> str:
    """The policy with requests allowed to this site and `hosts` alone.

    A host without a scheme means https. Raises BuildError for what is no host.
    """
    allowed = ["'self'"]
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise BuildError(f"--model-host {host}: give a host such as huggingface.co")
        for name in (host, *_SENT_ON_TO.get(host, ())):
            allowed.append(name if "://" in name else f"https://{name}")
    return _CONNECT.sub(f"connect-src {' '.join(dict.fromkeys(allowed))}", policy)


def filled_index(text: str, policy: str, *, is_isolating: bool) -> str:
    """The index page with its policy, and whether its service worker is to isolate it."""
    text = _META.sub(lambda found: found[1] + policy + found[3], text)
    mode = "service-worker" if is_isolating else "headers"
    return _MODE.sub(lambda found: found[1] + mode + found[2], text)


def headers_file(policy: str) -> str:
    """`_headers`, which Netlify and Cloudflare Pages read: the same as a server should send."""
    every = {
        "Content-Security-Policy": policy,
        **ISOLATION,
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    lines = ["/*", *(f"  {name}: {value}" for name, value in every.items())]
    lines += ["/service_worker.js", "  Cache-Control: no-cache", ""]
    return "\n".join(lines)
