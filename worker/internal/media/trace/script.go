package trace

import "github.com/browser-svc/svc/worker/internal/media/interaction"

// focusScript notes, in the world of the worker, which kind of field has the focus from when on, with an entry for each field. A kind other than text and none
// may be a field for a secret. An element that was such a field once remains one.
const focusScript = `(() => {
  if (globalThis.svcTrace) return;
  const log = [], secret = new WeakSet();
  let last;
  const isSecret = ` + interaction.ProtectedField + `;
  const kindOf = e => {
    if (!e || e === document.body || e === document.documentElement) return 'none';
    if (isSecret(e)) return 'secret';
    return e.isContentEditable || e.matches('input, textarea, select, button, a, summary, [tabindex]') && !e.tagName.includes('-') ? 'text' : 'unknown';
  };
  const note = () => {
    let e = document.activeElement;
    while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;
    const kind = kindOf(e);
    if (log.at(-1)?.kind !== kind || e !== last) log.push({t: Date.now(), kind});
    last = e;
    if (log.length > 200) state.since = log.shift() && log[0].t;
  };
  const state = globalThis.svcTrace = {since: Date.now(), log, note, isSecret};
  const listen = () => {
    for (const name of ['focusin', 'focus', 'blur']) addEventListener(name, note, {capture: true, passive: true});
  };
  listen();
  new MutationObserver(listen).observe(document, {childList: true}); // document.open() removes listeners
  for (const e of document.querySelectorAll('input')) isSecret(e);
  note();
})()`

// focusCheck returns the notes of focusScript.
const focusCheck = `globalThis.svcTrace && (svcTrace.note(), {since: svcTrace.since, now: Date.now(), log: svcTrace.log})`

// snapshotFunction returns the DOM of a document as in the format, as JSON. It removes scripts, and the values of password
// fields, hidden fields and the fields that it gets, which were filled with secrets.
const snapshotFunction = `async function(wait, maxChars, ...filled) {
  ` + focusScript + `;
  if (wait && document.readyState !== 'complete') await new Promise(f => { addEventListener('load', f); setTimeout(f, 5000) });
  const at = Date.now();
  let chars = 0, secretVisible = false;
  const add = text => { if ((chars += text.length) > maxChars) throw new Error('too large'); return text };
  const rules = sheet => { try { return add([...sheet.cssRules].map(r => r.cssText).join('\n')) } catch (e) { if (chars > maxChars) throw e } };
  const isSecret = e => filled.includes(e) || !!globalThis.svcTrace?.isSecret(e) || e instanceof HTMLInputElement && e.type === 'password';
  const frameOf = e => { for (let i = 0; i < window.length; i++) if (window[i] === e.contentWindow) return '/snapshot/svcframe-' + i; return '' };
  const withState = (e, attrs) => {
    const secret = isSecret(e), field = e instanceof HTMLInputElement || e instanceof HTMLTextAreaElement;
    if (secret && e.type !== 'password' && getComputedStyle(e).webkitTextSecurity === 'none' && (e.value ?? e.textContent) && e.checkVisibility()) secretVisible = true;
    if (secret || e.type === 'hidden') delete attrs.value;
    else if (field && !['checkbox', 'radio', 'file', 'submit', 'button', 'image', 'reset'].includes(e.type)) attrs.__playwright_value_ = add(e.value);
    if (e.type === 'checkbox' || e.type === 'radio') attrs.__playwright_checked_ = String(e.checked);
    if (e instanceof HTMLSelectElement) attrs.__playwright_value_ = e.value;
    if (e instanceof HTMLOptionElement) attrs.__playwright_selected_ = String(e.selected);
    if (e.scrollTop) attrs.__playwright_scroll_top_ = String(e.scrollTop);
    if (e.scrollLeft) attrs.__playwright_scroll_left_ = String(e.scrollLeft);
    return secret;
  };
  const children = (parent, result, depth) => {
    for (let child = parent.firstChild; child; child = child.nextSibling) {
      const n = visit(child, depth + 1);
      if (n !== undefined) result.push(n);
    }
    return result;
  };
  const sheets = (root, result) => {
    for (const sheet of root.adoptedStyleSheets ?? []) result.push(['template', {__playwright_style_sheet_: rules(sheet) ?? ''}]);
    return result;
  };
  const visit = (node, depth) => {
    if (node.nodeType === Node.TEXT_NODE) return add(node.nodeValue);
    if (node.nodeType !== Node.ELEMENT_NODE || depth > 400) return;
    const name = node.nodeName, upper = name.toUpperCase();
    if (upper === 'SCRIPT' || upper === 'NOSCRIPT' || upper === 'META' && node.httpEquiv) return;
    if (upper === 'LINK' && /preload|prefetch|preconnect|import/i.test(node.rel)) return;
    if (upper === 'STYLE') return ['STYLE', {}, ((node.sheet && rules(node.sheet)) ?? add(node.textContent)).replaceAll('</', '<\\/')]; // viewers write it into HTML
    if (upper === 'LINK' && node.sheet) {
      const text = rules(node.sheet);
      if (text !== undefined) return ['STYLE', {media: node.media}, text.replaceAll('</', '<\\/')];
    }
    const attrs = {};
    for (const a of node.attributes) {
      if (/^on/i.test(a.name) || a.name === 'integrity' || a.name === 'nonce' || /^\s*javascript:/i.test(a.value)) continue;
      attrs[a.name] = add(a.value);
    }
    if (upper === 'IFRAME' || upper === 'FRAME') {
      delete attrs.srcdoc; delete attrs.sandbox;
      attrs.src = frameOf(node);
    }
    if (upper === 'IMG' && node.currentSrc && !node.currentSrc.startsWith('data:')) attrs.__playwright_current_src__ = node.currentSrc;
    const result = [name, attrs];
    if (node instanceof HTMLElement && withState(node, attrs)) return result;
    if (node.shadowRoot) result.push(sheets(node.shadowRoot, children(node.shadowRoot, ['template', {__playwright_shadow_root_: 'true'}], depth + 1)));
    if (upper === 'HEAD') result.push(['BASE', {href: document.baseURI}]);
    children(node, result, depth);
    return node === document.documentElement ? sheets(document, result) : result;
  };
  let html, index = -1;
  try { html = document.documentElement ? visit(document.documentElement, 0) : ['HTML', {}] } catch (e) { return JSON.stringify({at, problem: String(e.message)}) }
  for (let i = 0; parent !== window && i < parent.length; i++) if (parent[i] === window) index = i;
  return JSON.stringify({
    at, html, index, secretVisible, doctype: document.doctype?.name, url: location.href, frames: window.length,
    viewport: {width: innerWidth, height: innerHeight}
  });
}`
