// Package certs reads the certificates that clients and operators give as text.
package certs

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// ParseAuthorities returns the certificates of certificate authorities in a PEM text, at least
// one. Errors are for the caller and do not repeat the text.
func ParseAuthorities(text []byte) ([]*x509.Certificate, error) {
	var found []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			return nil, errors.New("must not contain a private key: give the certificate only")
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		authority, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d is invalid: %w", len(found)+1, err)
		}
		if authority.Version >= 3 && !authority.IsCA { // older versions do not tell
			return nil, fmt.Errorf("certificate %d (%s) is not of a certificate authority: use the certificate of its issuer", len(found)+1, authority.Subject)
		}
		found = append(found, authority)
	}
	if len(found) == 0 {
		return nil, errors.New("must contain a certificate in PEM format (-----BEGIN CERTIFICATE-----)")
	}
	return found, nil
}
