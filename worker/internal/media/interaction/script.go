package interaction

// Names in the world of the script.
const (
	binding     = "svcReport"
	usedElement = "svcUsed[%d]?.deref()"
)

// watchScript reports input. It changes nothing that the page can see, and keeps no element
// alive. It takes no text of fields, and of an editable part of a page only the element
// that contains all of it.
const watchScript = `(() => {
  const report = globalThis.svcReport, used = [];
  if (globalThis.svcUsed || !report) return;
  globalThis.svcUsed = used;
  let changed, count = 0;
  const field = e => e instanceof HTMLTextAreaElement || e instanceof HTMLSelectElement || e.isContentEditable ||
    e instanceof HTMLInputElement && !['button', 'submit', 'reset', 'image', 'checkbox', 'radio', 'file'].includes(e.type);
  const host = e => {
    while (e.isContentEditable && e.parentElement?.isContentEditable) e = e.parentElement;
    return e;
  };
  const fallback = e => {
    const control = e.closest('button, a, label, [role], summary') ?? e;
    const named = e.ariaLabel || control.ariaLabel || e.alt || e.title || e.placeholder;
    const text = field(e) || control.querySelector('input, textarea, select') || control.closest('[contenteditable]') ? '' : control.textContent;
    return String(named || text || '').replace(/\s+/g, ' ').trim().slice(0, 200);
  };
  const tell = (kind, e) => {
    const slot = count++ % 16;
    used[slot] = new WeakRef(e);
    const control = e.closest('button, a, [role]') ?? e;
    const role = control.role || {A: 'link', BUTTON: 'button'}[control.tagName] || '';
    report(JSON.stringify({kind, slot, field: field(e), fallback: fallback(e), role}));
  };
  const element = event => {
    const at = event.composedPath()[0];
    return event.isTrusted && at instanceof Element ? host(at) : undefined;
  };
  const clicked = event => {
    try {
      const e = element(event);
      if (e) tell('click', e);
    } catch {} // names of fields can hide members of a form
  };
  const focused = () => { changed = undefined };
  const edited = event => {
    try {
      const e = element(event);
      if (!e || !field(e) || changed?.deref() === e) return;
      changed = new WeakRef(e);
      tell('input', e);
    } catch {}
  };
  const listen = () => {
    const options = {capture: true, passive: true};
    addEventListener('click', clicked, options);
    addEventListener('focusin', focused, options);
    addEventListener('input', edited, options);
  };
  listen();
  // document.open() removes all listeners, but not observers, and removes the root element.
  new MutationObserver(listen).observe(document, {childList: true});
})()`
