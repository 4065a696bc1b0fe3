// Package data groups what launches store: downloads and uploads (files), versions of
// persistent data (profiledata), cookies and storage in Playwright's format
// (storagestate), activity logs (audit), and the reader of archives of others (unzip). Packages of api, auth,
// session and browser import it. A launch has one lock for its files and one for its
// save or restore; transfers of chunks own their goroutines and end with their call.
package data
