// The worker puts this before the service worker of Playwright's trace viewer. That makes documents from recorded pages, in the
// origin of the worker. Here each of them gets a policy: of a snapshot, only the script of the viewer at its beginning runs.
(() => {
  const { scope } = registration;
  const pages = ["index.html", "snapshot.html"].map((name) => scope + name); // their policy is from the worker
  const beginning = /^(?:<!DOCTYPE [^<>]*>)?<style>[^<>]*<\/style><script(?: nonce="\w+")?>(.*?)<\/script>/s;

  const policy = async (script) => {
    const sum = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(script));
    const hash = btoa(String.fromCharCode(...new Uint8Array(sum)));
    const recorded = "http: https: data: blob:"; // the service worker answers from the trace
    return (
      `sandbox allow-same-origin allow-scripts; default-src 'none'; script-src 'sha256-${hash}'; style-src 'unsafe-inline' ${recorded}; ` +
      `img-src ${recorded}; font-src ${recorded}; media-src ${recorded}; frame-src ${scope}snapshot/ data:; form-action 'none'; frame-ancestors 'self'`
    );
  };

  const isolate = async (url, answer) => {
    const response = await answer;
    const body = await response.arrayBuffer();
    const isSnapshot = url.startsWith(`${scope}snapshot/`); // other documents are files of recorded pages
    const script = isSnapshot && beginning.exec(new TextDecoder().decode(body))?.[1];
    const headers = new Headers(response.headers);
    headers.append("Content-Security-Policy", await policy(script || ""));
    return new Response(body, { status: response.status, statusText: response.statusText, headers });
  };

  const { respondWith } = FetchEvent.prototype;
  FetchEvent.prototype.respondWith = function (answer) {
    const { mode, url } = this.request;
    const isOwn = mode !== "navigate" || pages.includes(url.split(/[?#]/)[0]);
    respondWith.call(this, isOwn ? answer : isolate(url, answer));
  };
})();
