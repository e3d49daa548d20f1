"""An environment of Harbor's on plain podman: no compose, no build, no network.

It is imported by Harbor, with `--env podman_cell:PodmanCell`. Its container is named after the
session, as those of Harbor's own environments are, and so found when it is left behind.
"""

import asyncio
import os
from pathlib import Path, PurePath
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

_FOREVER = "mkdir -p /app; while :; do sleep 1000; done"


class PodmanCell(BaseEnvironment):  # type: ignore[misc]
    """One container of the image that the task names."""

    @staticmethod
    def type() -> str:
        return "podman-cell"

    @property
    def capabilities(self) -> Any:
        return EnvironmentCapabilities(mounted=True, disable_internet=True)

    def _validate_definition(self) -> None:
        if not self.task_env_config.docker_image:
            raise ValueError("task.toml names no environment.docker_image")

    async def start(self, force_build: bool) -> None:
        volumes = []
        for mount in self._mounts:
            os.makedirs(mount["source"], exist_ok=True)
            volumes += ["-v", f"{mount['source']}:{mount['target']}"]
        # A folder that a test can open a gate in.
        if shown := os.environ.get("CELL_SIGNS"):
            volumes += ["-v", f"{shown}:/signs:ro"]
        image = self.task_env_config.docker_image
        words = ("run", "-d", "--network", "none", "--name", self.session_id, *volumes, image)
        done = await self._podman(*words, "/bin/sh", "-c", _FOREVER)
        if done.return_code:
            raise RuntimeError(done.stderr)

    async def stop(self, delete: bool) -> None:
        await self._podman("rm", "-f", "-t", "0", self.session_id)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> Any:
        variables = (self._merge_env(env) or {}).items()
        given = [word for pair in variables for word in ("-e", "=".join(pair))]
        shell = ("/bin/sh", "-c", command)
        words = ("exec", "-w", cwd or "/app", *given, self.session_id, *shell)
        return await self._podman(*words, seconds=timeout_sec)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await self.exec(f"mkdir -p '{PurePath(target_path).parent}'")
        await self._podman("cp", str(source_path), f"{self.session_id}:{target_path}")

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await self.exec(f"mkdir -p '{target_dir}'")
        await self._podman("cp", f"{source_dir}/.", f"{self.session_id}:{target_dir}")

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        await self._podman("cp", f"{self.session_id}:{source_path}", str(target_path))

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        await self._podman("cp", f"{self.session_id}:{source_dir}/.", str(target_dir))

    async def _podman(self, *words: str, seconds: float | None = None) -> Any:
        pipe = asyncio.subprocess.PIPE
        client = await asyncio.create_subprocess_exec(
            "podman", *words, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
        try:
            out, err = await asyncio.wait_for(client.communicate(), seconds)
        except TimeoutError:
            client.kill()
            raise
        return ExecResult(
            stdout=out.decode(errors="replace"),
            stderr=err.decode(errors="replace"),
            return_code=client.returncode,
        )
