package secretfill

// refusals has the messages for what fieldScript returns.
var refusals = map[string]string{
	"element":  "is no input",
	"password": "is no password input: a password is only filled into input type=password",
	"text":     "is no text input: a username is filled into text, email, tel, url, search and number inputs, a code also into password inputs",
	"locked":   "is disabled or read-only",
	"rejected": "does not accept the value, for example because it takes only numbers",
}

// belongsScript reports whether a node is in the document of the world.
const belongsScript = `function() { return this.ownerDocument === document }`

// fieldScript checks a field and fills it with a value, if there is one. It returns nothing,
// or why the field is not filled. It runs in a world of its own, so the page cannot replace
// what it uses, and the setters of frameworks do not notice the value before the event.
//
// The value is masked before it is set, also in a password input: the page can turn that into
// a text input. An important inline style overrides every style sheet of the page.
const fieldScript = `function(field, value) {
  if (value !== undefined) this.focus(); // the page may react, so this precedes the checks
  if (this.ownerDocument !== document || !this.isConnected) return 'changed';
  if (!(this instanceof HTMLInputElement)) return 'element';
  const text = ['text', 'email', 'tel', 'url', 'search', 'number'].includes(this.type), password = this.type === 'password';
  if (field === 'password' && !password) return 'password';
  if (!text && !(password && field !== 'username')) return 'text';
  if (this.readOnly || this.matches(':disabled')) return 'locked';
  if (value === undefined) return '';
  const before = this.value;
  this.style.setProperty('-webkit-text-security', 'disc', 'important');
  this.value = value;
  if (this.value !== value) {
    this.value = before;
    return 'rejected';
  }
  this.dispatchEvent(new Event('input', {bubbles: true, composed: true}));
  this.dispatchEvent(new Event('change', {bubbles: true}));
  return '';
}`
