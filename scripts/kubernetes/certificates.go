package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority is the certificate authority of the cluster and the edge.
type authority struct {
	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// writeCertificates writes ca.crt and the certificates and keys NAME.crt and NAME.key of the cluster and the edge to dir.
func writeCertificates(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	a := authority{dir: dir}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	template := certificate("svc-kubernetes")
	template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign
	a.certificate = template
	if err := a.write("ca", template); err != nil {
		return err
	}
	server := certificate("kube-apiserver")
	server.DNSNames = []string{"kubernetes.default.svc"}
	server.IPAddresses = []net.IP{net.ParseIP(controlAddress), net.ParseIP("10.96.0.1")}
	edge := certificate("edge")
	edge.DNSNames, edge.IPAddresses = []string{cloudHost}, []net.IP{net.ParseIP(controlAddress)}
	pairs := map[string]*x509.Certificate{
		"apiserver": server, "edge": edge, "admin": certificate("admin", "system:masters"), "service-accounts": certificate("service-accounts"),
	}
	for _, name := range nodeNames {
		pairs[name] = certificate("system:node:"+name, "system:nodes")
	}
	for name, template := range pairs {
		if err := a.write(name, template); err != nil {
			return err
		}
	}
	return nil
}

func certificate(name string, groups ...string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name, Organization: groups},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// write signs a certificate and writes it with its key.
func (a authority) write(name string, template *x509.Certificate) error {
	key := a.key
	if template != a.certificate {
		var err error
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return err
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(a.dir, name+".crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.dir, name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)
}
