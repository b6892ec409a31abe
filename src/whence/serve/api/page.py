"""The page: static files that are built into the package, or a few plain lines where they are not."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles

BUILT = Path(__file__).resolve().parent.parent / "page"
ADDRESSES = (
    "/", "/login", "/search", "/datasets", "/dataset", "/lineage", "/diff", "/impact", "/versions", "/runs",
    "/runs/{id:path}", "/traces", "/traces/{id}", "/diagnoses", "/diagnoses/{id}", "/types", "/entities", "/audit",
)  # fmt: skip
POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
FALLBACK = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>whence</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body><main><h1>whence</h1>
<p>This server has no page: it was started from a checkout in which <code>ui/</code> was not built.
The API is at <a href="/api/v1/datasets">/api/v1</a>, its description at <a href="/openapi.json">/openapi.json</a>.</p>
</main></body></html>
"""


def add_page(app: FastAPI) -> None:
    index = BUILT / "index.html"

    def page() -> Response:
        return FileResponse(index, headers=HEADERS) if index.exists() else HTMLResponse(FALLBACK, headers=HEADERS)

    for address in ADDRESSES:
        app.add_api_route(address, page, methods=["GET"], include_in_schema=False)
    assets = BUILT / "assets"
    if assets.is_dir():  # below a name of its own: other addresses keep their own answers, a wrong method 405
        app.mount("/assets", _Assets(directory=assets))


class _Assets(StaticFiles):
    async def get_response(self, path: str, scope: object) -> Response:
        found = await super().get_response(path, scope)  # type: ignore[arg-type]
        found.headers.update(HEADERS)
        # Their names change with what is in them.
        found.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return found
