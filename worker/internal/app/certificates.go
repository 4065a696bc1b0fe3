package app

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/browser-svc/svc/shared/certs"
)

// certificateSuffixes are the names of the files that count in a directory of CA_CERTIFICATES.
var certificateSuffixes = []string{".pem", ".crt", ".cer"}

// rootCAs returns the certificate authorities of the system and of CA_CERTIFICATES. It
// returns nil, which stands for those of the system, if CA_CERTIFICATES is not set.
func (c Config) rootCAs() (*x509.CertPool, error) {
	certificates, err := c.caCertificates()
	if err != nil || len(certificates) == 0 {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the certificate authorities of the system: %w", err)
	}
	for _, certificate := range certificates {
		pool.AddCert(certificate)
	}
	return pool, nil
}

// caCertificates returns the certificates of CA_CERTIFICATES. Errors name the file.
func (c Config) caCertificates() ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for _, path := range c.CACertificates {
		files, err := certificateFiles(path)
		if err != nil {
			return nil, fmt.Errorf("CA_CERTIFICATES: %w", err)
		}
		for _, file := range files {
			found, err := readCertificates(file)
			if err != nil {
				return nil, fmt.Errorf("CA_CERTIFICATES: %w", err)
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// certificateFiles returns the file, or the files with certificates in the directory. Hidden
// entries are left out: Kubernetes keeps copies of mounted files there.
func certificateFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasPrefix(name, ".") && slices.Contains(certificateSuffixes, strings.ToLower(filepath.Ext(name))) {
			files = append(files, filepath.Join(path, name))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("the directory %s has no file with one of the endings %s", path, strings.Join(certificateSuffixes, ", "))
	}
	return files, nil
}

// readCertificates returns the certificates of a PEM file, which must have at least one.
func readCertificates(file string) ([]*x509.Certificate, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	found, err := certs.ParseAuthorities(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return found, nil
}
