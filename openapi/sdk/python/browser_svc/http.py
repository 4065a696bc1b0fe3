"""The shells that perform operations: Http with blocking calls, AsyncHttp with asyncio."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import httpx

from .core import Answer, Call, Operation, Pause, result

T = TypeVar("T")
BLOCK = 1 << 20


class _Base:
    def __init__(self, base: str, headers: dict[str, str]) -> None:
        self.base, self.headers = base.rstrip("/"), headers

    def _request(self, call: Call) -> dict[str, Any]:
        headers = dict(call.headers)
        if call.upload is not None:
            headers |= {"Content-Type": "application/octet-stream", "Content-Length": str(os.path.getsize(call.upload))}
        return {
            "method": call.method,
            "url": call.path,
            "params": {name: str(value).lower() if isinstance(value, bool) else value for name, value in call.query.items()},
            "json": call.body,
            "headers": headers,
            "timeout": httpx.Timeout(call.timeout, connect=10),
        }


def _failure(error: Exception) -> Answer:
    return Answer(failure=error, sent=not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)))


def _answer(response: httpx.Response, content: bytes = b"") -> Answer:
    return Answer(response.status_code, response.headers, content)


def _part(path: str | os.PathLike[str]) -> str:
    """The name of a file until it is complete."""
    return f"{os.fspath(path)}.part"


class Http(_Base):
    def __init__(self, base: str, headers: dict[str, str]) -> None:
        super().__init__(base, headers)
        self._client = httpx.Client(base_url=self.base, headers=headers)

    def close(self) -> None:
        self._client.close()

    def run(self, operation: Operation[T]) -> T:
        """Performs an operation and returns its result."""
        try:
            effect = next(operation)
            while True:
                try:
                    answer = self._perform(effect)
                except BaseException as error:
                    effect = operation.throw(error)
                else:
                    effect = operation.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _perform(self, effect: Call | Pause) -> Answer:
        if isinstance(effect, Pause):
            time.sleep(effect.seconds)
            return Answer()
        try:
            if effect.upload is not None:
                with open(effect.upload, "rb") as file:
                    return self._exchange(effect, file)
            return self._exchange(effect)
        except httpx.TransportError as error:
            return _failure(error)

    def _exchange(self, call: Call, content: Any = None) -> Answer:
        with self._client.stream(**self._request(call), content=content) as response:
            if call.save is None or response.status_code >= 300:
                return _answer(response, response.read())
            try:
                with open(_part(call.save), "wb") as file:
                    for block in response.iter_bytes(BLOCK):
                        file.write(block)
                os.replace(_part(call.save), call.save)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(_part(call.save))
            return _answer(response)

    def lines(self, call: Call) -> Iterator[str]:
        """The lines of an endless answer."""
        try:
            with self._client.stream(**self._request(call)) as response:
                if response.status_code >= 300:
                    result(call, _answer(response, response.read()))
                yield from response.iter_lines()
        except httpx.TransportError as error:
            result(call, _failure(error))


class AsyncHttp(_Base):
    def __init__(self, base: str, headers: dict[str, str]) -> None:
        super().__init__(base, headers)
        self._client = httpx.AsyncClient(base_url=self.base, headers=headers)

    async def close(self) -> None:
        await self._client.aclose()

    async def run(self, operation: Operation[T]) -> T:
        """Performs an operation and returns its result."""
        try:
            effect = next(operation)
            while True:
                try:
                    answer = await self._perform(effect)
                except BaseException as error:
                    effect = operation.throw(error)
                else:
                    effect = operation.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def _perform(self, effect: Call | Pause) -> Answer:
        if isinstance(effect, Pause):
            await asyncio.sleep(effect.seconds)
            return Answer()
        try:
            return await self._exchange(effect, None if effect.upload is None else _blocks(effect.upload))
        except httpx.TransportError as error:
            return _failure(error)

    async def _exchange(self, call: Call, content: Any) -> Answer:
        async with self._client.stream(**self._request(call), content=content) as response:
            if call.save is None or response.status_code >= 300:
                return _answer(response, await response.aread())
            try:
                file = await asyncio.to_thread(open, _part(call.save), "wb")
                with file:
                    async for block in response.aiter_bytes(BLOCK):
                        await asyncio.to_thread(file.write, block)
                os.replace(_part(call.save), call.save)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(_part(call.save))
            return _answer(response)

    async def lines(self, call: Call) -> AsyncIterator[str]:
        """The lines of an endless answer."""
        try:
            async with self._client.stream(**self._request(call)) as response:
                if response.status_code >= 300:
                    result(call, _answer(response, await response.aread()))
                async for line in response.aiter_lines():
                    yield line
        except httpx.TransportError as error:
            result(call, _failure(error))


async def _blocks(path: str | os.PathLike[str]) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(open, path, "rb") as file:
        while block := await asyncio.to_thread(file.read, BLOCK):
            yield block
