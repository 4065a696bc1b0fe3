// Package accounts groups what belongs to a person: sign-up, sign-in and sessions
// (auth), and sign-in with an OpenID Connect provider (oidc). Packages of api and app
// import it; it imports only platform. It starts no goroutine; auth has one lock, for
// the failed attempts of each network.
package accounts
