"""Datasets, versions, runs and search."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from whence.serve.answers import datasets as datasets_answers
from whence.serve.answers import runs as runs_answers
from whence.serve.answers.search import search as find
from whence.serve.api import parameters as p
from whence.serve.api import routes
from whence.serve.api import shapes as s
from whence.serve.api.replies import reply
from whence.serve.api.routes import NO_PARAMETERS, answers, view_of

router = routes.router()


@router.get("/datasets", responses=answers(s.Items[s.DatasetShape]))
def datasets(request: Request, asked: Annotated[p.DatasetsAsked, Query()]) -> Response:
    """All datasets that the caller sees, by namespace and name."""
    return reply(request, datasets_answers.datasets(view_of(request), **asked.model_dump()))


@router.get("/dataset", responses=answers(s.DatasetAlone, 404, 409))
def dataset(request: Request, asked: Annotated[p.DatasetAsked, Query()]) -> Response:
    """One dataset, with its version and columns of that time."""
    return reply(request, datasets_answers.dataset(view_of(request), **asked.model_dump()))


@router.get("/versions", responses=answers(s.Items[s.VersionShape], 404, 409))
def versions(request: Request, asked: Annotated[p.VersionsAsked, Query()]) -> Response:
    """The versions of a dataset, newest first."""
    return reply(request, datasets_answers.dataset_versions(view_of(request), **asked.model_dump()))


@router.get("/runs", responses=answers(s.Items[s.RunShape | s.MaskedRun], 404, 409))
def runs(request: Request, asked: Annotated[p.RunsAsked, Query()]) -> Response:
    """Runs, newest first; with a name those that read or wrote that dataset, with a namespace alone any of it."""
    return reply(request, runs_answers.runs(view_of(request), **asked.model_dump()))


@router.get("/runs/{id:path}", responses=answers(s.RunAlone | s.MaskedRun, 404), dependencies=NO_PARAMETERS)
def run(request: Request, id: str) -> Response:
    """One run, with its operators."""
    return reply(request, runs_answers.run(view_of(request), id))


@router.get("/search", responses=answers(s.Items[s.SearchItem]))
def search(request: Request, asked: Annotated[p.SearchAsked, Query()]) -> Response:
    """Datasets, columns and runs whose names hold every word of q."""
    return reply(request, find(view_of(request), **asked.model_dump()))
