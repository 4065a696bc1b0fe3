package browsertest

// ExtensionName is the name of the test extension.
const ExtensionName = "Test extension"

// ExtensionFiles returns the files of an extension. Its content script sets the title of
// each http page to "changed" and sends the fragment of the URL, an address, to the service
// worker. The worker fetches it, and the answer becomes data-fetched of the page's root. Its
// action page has the title "action".
func ExtensionFiles() map[string]string {
	return map[string]string{
		"manifest.json": `{
			"manifest_version": 3, "name": "__MSG_name__", "version": "1.2.3", "default_locale": "en",
			"action": {"default_popup": "action.html"}, "background": {"service_worker": "worker.js"},
			"permissions": ["storage"], "host_permissions": ["<all_urls>"],
			"content_scripts": [{"matches": ["http://*/*"], "js": ["scripts/content.js"]}]
		}`,
		"_locales/en/messages.json": `{"Name": {"message": "` + ExtensionName + `"}}`,
		"action.html":               `<!doctype html><title>action</title>`,
		"scripts/content.js": `
			document.title = 'changed';
			if (location.hash) chrome.runtime.sendMessage(location.hash.slice(1), text => { document.documentElement.dataset.fetched = text });`,
		"worker.js": `
			chrome.runtime.onMessage.addListener((address, sender, answer) => {
				fetch(address).then(r => r.text()).then(answer, error => answer(String(error)));
				return true;
			});`,
	}
}
