"""A Hub for tests: enough of its routes to create, upload, tag, list and download dataset repositories, in memory."""

import base64
import hashlib
import http.server
import json
import re
import threading
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "hf_test"
REPO = r"/datasets/(?P<repo>[^/]+/[^/]+)"


class Hub(http.server.ThreadingHTTPServer):
    """Repositories by name, each a list of commits (id, path -> bytes); stored objects by hash."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.commits: dict[str, list[tuple[str, dict[str, bytes]]]] = {}
        self.tags: dict[str, dict[str, str]] = {}
        self.objects: dict[str, bytes] = {}
        self.messages: list[str] = []
        self.uploads: list[str] = []
        self.downloads: list[tuple[str, int]] = []
        """Path and first byte of every download."""
        self.fail_uploads_after: int | None = None
        self.cut_downloads_at: int | None = None
        self.lost: set[str] = set()
        """Paths that are listed and not there."""
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def add(self, repo: str, files: dict[str, bytes]) -> str:
        """Commit files as they are."""
        before = self.commits[repo][-1][1] if self.commits.get(repo) else {}
        return self.commit(repo, before | files)

    def commit(self, repo: str, files: dict[str, bytes]) -> str:
        sha = hashlib.sha1(json.dumps([repo, len(self.commits.get(repo, [])), sorted(files)]).encode()).hexdigest()
        self.commits.setdefault(repo, []).append((sha, files))
        return sha

    def at(self, repo: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        revision = self.tags.get(repo, {}).get(revision, revision)
        found = [commit for commit in self.commits.get(repo, []) if revision in ("main", commit[0])]
        return found[-1] if found else None


class Handler(http.server.BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Nothing on the terminal."""

    def _answer(self, status: int, value: Any = None, headers: dict[str, str] | None = None) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        if "Content-Length" not in (headers or {}):
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _missing(self, code: str) -> None:
        self._answer(404, {"error": code}, {"X-Error-Code": code, "X-Error-Message": code})

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _match(self, pattern: str) -> dict[str, str] | None:
        found = re.fullmatch(pattern, unquote(urlsplit(self.path).path))
        return found.groupdict() if found else None

    def _authorised(self) -> bool:
        if self.headers.get("Authorization") == f"Bearer {TOKEN}":
            return True
        self._body()
        self._answer(401, {"error": "Invalid token"}, {"X-Error-Message": "Invalid credentials"})
        return False

    def do_GET(self) -> None:
        if found := self._match(rf"{REPO}/resolve/(?P<rev>[^/]+)/(?P<path>.+)"):
            self._file(**found)
        elif found := self._match(rf"/api{REPO}(/revision/(?P<rev>[^/]+))?"):
            self._info(found["repo"], found["rev"] or "main")
        elif found := self._match(rf"/api{REPO}/tree/(?P<rev>[^/]+)(/(?P<path>.+))?"):
            self._tree(found["repo"], found["rev"], found["path"] or "")
        else:
            self._answer(404, {"error": f"no route {self.path}"})

    def do_HEAD(self) -> None:
        self.do_GET()

    def _info(self, repo: str, rev: str) -> None:
        if repo not in self.server.commits:
            return self._missing("RepoNotFound")
        found = self.server.at(repo, rev)
        if found is None and self.server.commits[repo]:
            return self._missing("RevisionNotFound")
        sha, files = found or ("0" * 40, {})
        siblings = [{"rfilename": path, "size": len(data)} for path, data in files.items()]
        info = {"id": repo, "_id": repo, "sha": sha, "siblings": siblings, "private": False, "tags": [], "downloads": 0,
                "likes": 0, "disabled": False, "gated": False, "lastModified": "2026-01-01T00:00:00.000Z"}  # fmt: skip
        return self._answer(200, info)

    def _tree(self, repo: str, rev: str, under: str) -> None:
        found = self.server.at(repo, rev)
        if found is None:
            return self._missing("RevisionNotFound" if repo in self.server.commits else "RepoNotFound")
        recursive = parse_qs(urlsplit(self.path).query).get("recursive", ["false"])[0].lower() in ("true", "1")
        listed: dict[str, dict[str, Any]] = {}
        for path, data in found[1].items():
            if under and not path.startswith(f"{under}/"):
                continue
            inner = path[len(under) + 1 if under else 0 :]
            if "/" in inner and not recursive:
                folder = f"{under}/{inner.split('/')[0]}".strip("/")
                listed[folder] = {"type": "directory", "path": folder, "oid": "0" * 40, "size": 0}
            else:
                listed[path] = {"type": "file", "path": path, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
        return self._answer(200, list(listed.values()))

    def _file(self, repo: str, rev: str, path: str) -> None:
        found = self.server.at(repo, rev)
        if found is None or path not in found[1] or path in self.server.lost:
            return self._missing("EntryNotFound" if repo in self.server.commits else "RepoNotFound")
        data = found[1][path]
        start = int((re.match(r"bytes=(\d+)-", self.headers.get("Range", "")) or [0, 0])[1])
        headers = {"X-Repo-Commit": found[0], "ETag": f'"{hashlib.sha1(data).hexdigest()}"', "Accept-Ranges": "bytes",
                   "Content-Length": str(len(data) - start)}  # fmt: skip
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        if self.command == "GET":
            self.server.downloads.append((path, start))
            cut = self.server.cut_downloads_at
            if cut is not None and len(data) - start > cut:
                self._answer(206 if start else 200, data[start : start + cut], headers)
                self.close_connection = True
                return None
        return self._answer(206 if start else 200, data[start:], headers)

    def do_POST(self) -> None:
        if not self._authorised():
            return
        body = self._body()
        if urlsplit(self.path).path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'user'}/{asked['name']}"
            known = name in self.server.commits
            if not known:
                self.server.commit(name, {".gitattributes": b"*.parquet filter=lfs\n"})
            self._answer(409 if known else 200, {"url": f"{self.server.url}/datasets/{name}", "name": name})
        elif urlsplit(self.path).path == "/api/validate-yaml":
            self._answer(200, {"errors": [], "warnings": []})
        elif self._match(rf"/api{REPO}/preupload/(?P<rev>.+)"):
            modes = [
                {"path": f["path"], "uploadMode": "lfs" if f["path"].endswith(".parquet") else "regular",
                 "shouldIgnore": False} for f in json.loads(body)["files"]
            ]  # fmt: skip
            self._answer(200, {"files": modes})
        elif self._match(rf"{REPO}\.git/info/lfs/objects/batch"):
            self._answer(200, {"transfer": "basic", "objects": [self._object(o) for o in json.loads(body)["objects"]]})
        elif found := self._match(rf"/api{REPO}/commit/(?P<rev>.+)"):
            self._commit(found["repo"], [json.loads(line) for line in body.splitlines()])
        elif found := self._match(rf"/api{REPO}/tag/(?P<rev>.+)"):
            tags = self.server.tags.setdefault(found["repo"], {})
            known = json.loads(body)["tag"] in tags
            if not known:
                tags[json.loads(body)["tag"]] = self.server.commits[found["repo"]][-1][0]
            self._answer(409 if known else 200, {})
        else:
            self._answer(404, {"error": f"no route {self.path}"})

    def _object(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked["oid"] in self.server.objects:
            return dict(asked)
        return asked | {"actions": {"upload": {"href": f"{self.server.url}/objects/{asked['oid']}"}}}

    def _commit(self, repo: str, lines: list[dict[str, Any]]) -> None:
        files = dict(self.server.commits[repo][-1][1]) if self.server.commits[repo] else {}
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                self.server.messages.append(value["summary"])
            elif line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.server.objects[value["oid"]]
            elif line["key"] == "deletedFile":
                files.pop(value["path"], None)
        sha = self.server.commit(repo, files)
        self._answer(
            200, {"success": True, "commitOid": sha, "commitUrl": f"{self.server.url}/datasets/{repo}/commit/{sha}"}
        )

    def do_PUT(self) -> None:
        body = self._body()
        with self.server.lock:
            limit = self.server.fail_uploads_after
            if limit is not None and len(self.server.uploads) >= limit:
                self._answer(403, {"error": "uploads are closed"}, {"X-Error-Message": "uploads are closed"})
                return
            oid = self.path.rsplit("/", 1)[1]
            self.server.uploads.append(oid)
            self.server.objects[oid] = body
        self._answer(200, {})
