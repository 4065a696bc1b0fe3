package interaction

// ProtectedField is a function of JavaScript that reports whether text in an element may be secret. Its scope has a WeakSet secret:
// an element that was such a field once remains one.
const ProtectedField = `e => {
    if (e instanceof HTMLInputElement && e.type === 'password' || /password|one-time-code|^cc-/.test(e.autocomplete ?? '')
      || getComputedStyle(e).webkitTextSecurity !== 'none') secret.add(e);
    return secret.has(e);
  }`

// frameLocator is a function that returns the script.Locator of the element of a frame.
const frameLocator = `function() { return svcLocate(this) }`

// locateScript is the part of stepScript that says how elements are found: by role and name, as Playwright computes them, with the
// other elements that have them too, and by a path that is checked. It does not ask the browser for names and roles, which takes
// hundreds of milliseconds in a large page.
const locateScript = `
  const norm = text => String(text ?? '').replace(/[\u200b\u00ad]/g, '').replace(/\s+/g, ' ').trim();
  const native = {
    button: 'button,input', link: 'a,area', textbox: 'input,textarea', searchbox: 'input', combobox: 'select,input', listbox: 'select', checkbox: 'input', radio: 'input',
    spinbutton: 'input', slider: 'input', switch: '', tab: '', menuitem: '', menuitemcheckbox: '', menuitemradio: '', option: 'option', treeitem: '', gridcell: ''
  };
  const inputs = {button: 'button', submit: 'button', reset: 'button', image: 'button', checkbox: 'checkbox', radio: 'radio', range: 'slider', number: 'spinbutton',
    text: 'textbox', email: 'textbox', tel: 'textbox', url: 'textbox', password: 'textbox', search: 'searchbox'};
  const roleOf = e => {
    const role = norm(e.getAttribute('role')).split(' ')[0];
    if (role) return role;
    switch (e.localName) {
      case 'a': case 'area': return e.hasAttribute('href') ? 'link' : '';
      case 'select': return e.multiple || e.size > 1 ? 'listbox' : 'combobox';
      case 'input': return e.list && /box$/.test(inputs[e.type]) && e.type !== 'checkbox' ? 'combobox' : inputs[e.type];
    }
    return {button: 'button', textarea: 'textbox', option: 'option'}[e.localName];
  };
  const hidden = e => !e.checkVisibility({visibilityProperty: true}) || !!e.closest('[aria-hidden=true]');
  const generated = (e, which) => /^"([^]*)"$/.exec(getComputedStyle(e, which).content)?.[1] ?? '';
  const content = e => {
    const parts = [...e.childNodes, ...e.shadowRoot?.childNodes ?? []].map(n => {
      if (n.nodeType === Node.TEXT_NODE) return n.nodeValue;
      if (!(n instanceof Element) || /^(input|select|textarea|script|style)$/.test(n.localName) || hidden(n)) return '';
      const text = n.ariaLabel || (n.localName === 'img' ? n.alt : content(n)) || n.title || '';
      return getComputedStyle(n).display === 'inline' && n.localName !== 'br' ? text : ' ' + text + ' ';
    });
    return generated(e, '::before') + parts.join('') + generated(e, '::after');
  };
  const labelsOf = e => {
    const ids = norm(e.getAttribute('aria-labelledby')).split(' ').map(id => id && document.getElementById(id)).filter(l => l);
    return norm(ids.map(content).join(' ')) || norm(e.ariaLabel) || norm([...e.labels ?? []].map(content).join(' '));
  };
  const nameOf = e => {
    const button = inputs[e.type] === 'button' && e.localName === 'input', field = e.matches('input,select,textarea');
    return labelsOf(e) || norm(button ? e.type === 'image' ? e.alt : e.value || {submit: 'Submit', reset: 'Reset'}[e.type] : '')
      || (field || /^(textbox|searchbox|combobox|listbox|slider|spinbutton)$/.test(roleOf(e)) ? '' : norm(content(e))) || norm(e.title) || norm(e.placeholder);
  };
  const interactive = 'button,a[href],area[href],input,select,textarea,summary,option,[contenteditable]' + Object.keys(native).map(role => ',[role=' + role + ']').join('');
  const seen = e => e.checkVisibility({visibilityProperty: true}) && e.getBoundingClientRect().width > 1;
  const all = (selector, root = document) =>
    [...root.querySelectorAll(selector), ...[...root.querySelectorAll('*')].flatMap(e => e.shadowRoot ? all(selector, e.shadowRoot) : [])];
  const hide = text => {
    for (const e of document.querySelectorAll('input')) if (isSecret(e) && e.value.length > 3) text = text.replaceAll(e.value, '***');
    return text;
  };
  const literal = t => !t.includes('"') ? '"' + t + '"' : !t.includes("'") ? "'" + t + "'" : 'concat(' + t.split('"').map(part => '"' + part + '"').join(",'\"',") + ')';
  const css = e => {
    const root = e.getRootNode(), found = selector => root.querySelectorAll(selector).length;
    let path = '';
    for (let at = e; at; at = at.parentElement) {
      const same = [...at.parentNode.children].filter(s => s.localName === at.localName), id = '#' + CSS.escape(at.id);
      const part = at.id && found(id) === 1 ? id : CSS.escape(at.localName) + (same.length > 1 ? ':nth-of-type(' + (same.indexOf(at) + 1) + ')' : '');
      path = part + (path && ' > ' + path);
      if (found(path) === 1) break;
    }
    return path;
  };
  const xpath = (e, name) => {
    const is = literal(name), tag = /^[a-z][a-z0-9]*$/.test(e.localName) ? '//' + e.localName : '//*', label = 'label[text()[normalize-space()=' + is + ']]';
    let ambiguous = '';
    for (const path of [tag + '[@aria-label=' + is + ']', tag + '[normalize-space()=' + is + ']', '//' + label + tag, tag + '[@id=//' + label + '/@for]',
      ...['placeholder', 'value', 'title', 'alt'].map(attribute => tag + '[@' + attribute + '=' + is + ']'), tag + '[.//img[@alt=' + is + ']]']) {
      const found = document.evaluate(path, document, null, XPathResult.ORDERED_NODE_SNAPSHOT_TYPE, null);
      for (let i = 0; i < found.snapshotLength; i++) if (found.snapshotItem(i) === e) {
        if (found.snapshotLength === 1) return path;
        ambiguous ||= '(' + path + ')[' + (i + 1) + ']';
      }
    }
    return ambiguous || css(e);
  };
  const locate = e => {
    const role = roleOf(e), name = nameOf(e), label = labelsOf(e), text = norm(e.textContent), testID = e.getAttribute('data-testid'), shadow = e.getRootNode() !== document;
    const near = c => [text, name].includes(norm(c.textContent)) || c.matches('input,select,textarea,[aria-label],[aria-labelledby],[title],:has([alt],[aria-label])');
    const usable = name => name && name.length <= 120 && hide(name) === name;
    const among = (by, name, selector, matches) => {
      const found = all(selector).filter(c => c === e || matches(c));
      return {by, name, count: found.length, index: found.indexOf(e), path: by === 'testid' || shadow ? css(e) : xpath(e, name), shadow};
    };
    if (/^i?frame$/.test(e.localName)) return {by: 'css', path: css(e)};
    if (role in native && !hidden(e) && usable(name) && e.type !== 'file')
      return {role, ...among('role', name, [native[role], '[role=' + role + ']'].filter(s => s).join(), c => roleOf(c) === role && near(c) && nameOf(c) === name && !hidden(c))};
    if (testID) return among('testid', testID, '[data-testid]', c => c.getAttribute('data-testid') === testID);
    if (usable(label)) return among('label', label, 'input,select,textarea,[aria-label],[aria-labelledby]', c => labelsOf(c) === label);
    if (usable(norm(e.placeholder))) return among('placeholder', norm(e.placeholder), '[placeholder]', c => norm(c.placeholder) === norm(e.placeholder));
    if (!e.matches('input,select,textarea') && !e.isContentEditable && !e.childElementCount && usable(text))
      return among('text', text, ':not(script,style,:has(*))', c => norm(c.textContent) === text);
    return {by: e.id ? 'id' : 'css', path: css(e), shadow};
  };
`

// stepScript is a function of the id of a frame that reports steps as package script has them, without their tabs and frames. It
// changes nothing that the page can see. It reports no value of a field that may be secret, and masks what is in one in other texts.
const stepScript = `frame => {
  const report = globalThis.svcReport;
  if (globalThis.svcLocate || !report) return;
  const secret = new WeakSet(), last = new WeakMap(), maxText = 5000;
  const isSecret = ` + ProtectedField + `;
  ` + locateScript + `
  globalThis.svcLocate = locate;
  let dirty, timer;
  const send = (kind, e, more) => report(JSON.stringify({frame, kind, target: e && locate(e), ...more}));
  const isField = e => e instanceof HTMLTextAreaElement || e.isContentEditable ||
    e instanceof HTMLInputElement && !['button', 'submit', 'reset', 'image', 'checkbox', 'radio', 'file', 'hidden'].includes(e.type);
  const isBox = e => e instanceof HTMLInputElement && ['checkbox', 'radio'].includes(e.type);
  const host = e => {
    if (e instanceof HTMLOptionElement) return e.closest('select') ?? e;
    while (e.isContentEditable && e.parentElement?.isContentEditable) e = e.parentElement;
    return e;
  };
  const change = (kind, e, values) => {
    const state = JSON.stringify(values);
    if (last.get(e) === state) return;
    last.set(e, state);
    send(kind, e, isSecret(e) ? {secret: true} : {values: values.map(v => hide(v).slice(0, maxText))});
  };
  const flush = () => {
    const e = dirty?.deref();
    dirty = undefined;
    clearTimeout(timer);
    if (e) change(['date', 'time', 'datetime-local', 'month', 'week', 'color', 'range'].includes(e.type) ? 'set' : 'fill', e, [e.value ?? e.innerText]);
  };
  const path = event => event.composedPath().filter(e => e instanceof Element);
  const clicked = event => {
    const elements = path(event), label = elements.findIndex(e => e instanceof HTMLLabelElement), inner = elements.findIndex(e => e.matches(interactive));
    const control = elements[label]?.control, labels = control && seen(control) && !(inner >= 0 && inner < label);
    return host(labels ? control : elements[Math.max(inner, 0)]);
  };
  const click = kind => event => {
    if (!event.isTrusted) return;
    flush();
    const e = clicked(event);
    if (e && !isBox(e)) send(kind, e);
  };
  const listeners = {
    click: event => { if (event.detail % 2) click('click')(event) }, // others are of keys and labels, or of a double click
    dblclick: click('dblclick'),
    auxclick: event => { if (event.button === 1) click('middleclick')(event) },
    contextmenu: event => { if (event.button === 2) click('rightclick')(event) },
    keydown: event => {
      const {key} = event, e = path(event)[0], plain = ['Enter', 'Tab', 'Escape'].includes(key), chord = event.ctrlKey || event.metaKey || event.altKey;
      if (!event.isTrusted || !e || event.repeat || event.isComposing || event.getModifierState('AltGraph') || /^(Shift|Control|Alt|Meta|Process|Unidentified|Dead|.*Lock)$/.test(key)) return;
      const at = host(e), page = e === document.body || e === document.documentElement, field = isField(at);
      if (key === 'Enter' && !chord && (at instanceof HTMLTextAreaElement || at.isContentEditable)) return; // a part of the text
      const edits = field && (!chord || /^([acvxyz]|Arrow.*|Backspace|Delete|Home|End)$/i.test(key)) && !(/^Arrow(Up|Down)$/.test(key) && roleOf(at) === 'combobox');
      // A character without a modifier may be a part of a password, as in a field that a closed shadow root hides.
      if (!plain && (edits || !chord && (key.length === 1 && key !== ' ' || page && !/^F\d+$/.test(key) || isBox(e) || e instanceof HTMLSelectElement))) return;
      flush();
      const modifiers = [[event.ctrlKey, 'Control'], [event.altKey, 'Alt'], [event.metaKey, 'Meta'], [event.shiftKey && (key.length > 1 || chord), 'Shift']];
      send('press', page ? undefined : at, {key: [...modifiers.filter(m => m[0]).map(m => m[1]), key === ' ' ? 'Space' : key].join('+')});
    },
    input: event => {
      const e = path(event)[0] && host(path(event)[0]);
      if (!e || !isField(e) || !event.isTrusted && !seen(e)) return;
      if (dirty?.deref() !== e) flush();
      dirty = new WeakRef(e);
      clearTimeout(timer);
      timer = setTimeout(flush, 400);
    },
    change: event => { // clients that choose an option or fill a date send it from a script
      const e = path(event)[0];
      if (!e || !event.isTrusted && !seen(e)) return;
      if (dirty?.deref() !== e || !isField(e)) flush();
      if (e instanceof HTMLSelectElement) change('select', e, [...e.selectedOptions].map(o => norm(o.text)));
      else if (e.type === 'file') change('files', e, [...e.files].map(f => f.name));
      else if (isBox(e) && event.isTrusted && seen(e)) send(e.checked ? 'check' : 'uncheck', e);
      else if (isField(e)) dirty = new WeakRef(e), flush();
    },
    focusin: event => { const e = path(event)[0]; if (e) isSecret(e) },
    focusout: flush,
    pagehide: flush,
  };
  const listen = () => {
    for (const name in listeners) addEventListener(name, guarded[name], {capture: true, passive: true});
  };
  const guarded = Object.fromEntries(Object.entries(listeners).map(([name, handle]) => [name, event => { try { handle(event) } catch {} }]));
  listen();
  new MutationObserver(listen).observe(document, {childList: true}); // document.open() removes listeners
}`
