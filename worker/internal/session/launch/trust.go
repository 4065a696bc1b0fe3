package launch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/browser-svc/svc/shared/certs"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/browser"
)

// checkTrust returns the errors of certificates that are found without decrypting a key:
// nobody is authenticated yet.
func (s Settings) checkTrust(prefix string) []fault.Detail {
	_, details := s.authorities(prefix)
	return append(details, clientDetails(prefix, certs.CheckClients(s.ClientCertificates))...)
}

// setTrust sets the certificate authorities and the client certificates of a browser.
func (s Settings) setTrust(ctx context.Context, request Request, spec *browser.Spec) error {
	authorities, details := s.authorities("profile.") // those of the launch were checked before
	prefix := "profile."
	if request.Override.ClientCertificates != nil {
		prefix = "browser."
	}
	clients, problems := certs.DecodeClients(ctx, s.ClientCertificates)
	if details = append(details, clientDetails(prefix, problems)...); len(details) > 0 {
		return fault.Invalid(details...)
	}
	spec.CACertificates = authorities
	if len(clients) > 0 {
		spec.ClientCertificates = make(map[string]tls.Certificate, len(clients))
	}
	for _, client := range clients {
		certificate, err := client.TLS()
		if err != nil {
			return fmt.Errorf("client certificate for %s: %w", client.Origin, err)
		}
		spec.ClientCertificates[client.Address()] = certificate
	}
	return nil
}

// authorities parses the certificate authorities, and returns an error for each invalid text.
func (s Settings) authorities(prefix string) (parsed []*x509.Certificate, details []fault.Detail) {
	for i, text := range s.CACertificates {
		found, err := certs.ParseAuthorities([]byte(text))
		if err != nil {
			details = append(details, fault.Detail{Field: fmt.Sprintf("%scaCertificates[%d]", prefix, i), Code: fault.Custom, Message: err.Error()})
		}
		parsed = append(parsed, found...)
	}
	return parsed, details
}

func clientDetails(prefix string, problems []certs.Problem) (details []fault.Detail) {
	for _, problem := range problems {
		details = append(details, fault.Detail{Field: prefix + "clientCertificates" + problem.Field, Code: fault.Custom, Message: problem.Message})
	}
	return details
}
