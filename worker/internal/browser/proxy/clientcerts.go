package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"time"
)

// ClientCertificates are presented to servers instead of the browser, which would ask a
// person which one to present. The Forwarder terminates TLS for their origins only.
type ClientCertificates struct {
	ByAddress    map[string]tls.Certificate // host:port of an origin, in lower case
	Roots        *x509.CertPool             // authorities of servers; nil: the system's
	AllowInvalid bool                       // present them also to a server whose certificate is invalid
}

// terminator terminates TLS between the browser and servers.
type terminator struct {
	ClientCertificates
	issuer *tls.Certificate // the authority of the certificates that the browser gets
}

// PresentCertificates presents client certificates from now on. The browser must trust the
// returned authority, whose key exists only in this Forwarder.
func (f *Forwarder) PresentCertificates(certificates ClientCertificates) (*x509.Certificate, error) {
	issuer, err := issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "svc client certificates"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("client certificates: %w", err)
	}
	f.terminator.Store(&terminator{certificates, issuer})
	return issuer.Leaf, nil
}

// issuedLifetime is longer than any launch.
const issuedLifetime = 10 * 365 * 24 * time.Hour

// issue creates a certificate with a new key. Without an issuer, it signs itself.
func issue(template *x509.Certificate, issuer *tls.Certificate) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if issuer == nil {
		issuer = &tls.Certificate{PrivateKey: key, Leaf: template}
	}
	template.SerialNumber = new(big.Int).SetBytes([]byte(rand.Text()[:16]))
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(issuedLifetime)
	raw, err := x509.CreateCertificate(rand.Reader, template, issuer.Leaf, key.Public(), issuer.PrivateKey)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(raw)
	return &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key, Leaf: leaf}, err
}

// terminatorFor returns nil for an address without a client certificate.
func (f *Forwarder) terminatorFor(address string) *terminator {
	t := f.terminator.Load()
	if t == nil {
		return nil
	}
	if _, ok := t.ByAddress[strings.ToLower(address)]; !ok {
		return nil
	}
	return t
}

// tunnelTLS serves a tunnel whose TLS it terminates. If the handshake with the server fails,
// the browser gets a new connection to the server itself, and shows its own error: the
// certificate is presented only to servers whose certificate is valid.
func (f *Forwarder) tunnelTLS(r *http.Request, t *terminator, client, server duplex, via *route) {
	ctx, cancel := context.WithTimeout(r.Context(), connectTimeout)
	defer cancel()
	start := &recordedConn{duplex: client}
	var upstream *tls.Conn
	downstream := tls.Server(start, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		start.complete = true
		upstream = tls.Client(server, t.clientConfig(r.Host, hello.SupportedProtos))
		if err := upstream.HandshakeContext(ctx); err != nil {
			start.silent = true
			return nil, err
		}
		return t.serverConfig(r.Host, upstream.ConnectionState().NegotiatedProtocol)
	}})
	err := downstream.HandshakeContext(ctx)
	if err == nil {
		relay(downstream, upstream)
		_, err = upstream.Read(make([]byte, 1)) // again: with TLS 1.3, a server refuses the certificate after the handshake
	}
	if err != nil && !errors.Is(err, io.EOF) && !isTimeout(err) {
		f.log.Debug("failed to present a client certificate", "host", r.Host, "error", err)
	}
	if !start.silent {
		return
	}
	_ = server.Close()
	fresh, err := via.connect(ctx, r.Host, r.Header)
	if err != nil {
		return
	}
	defer fresh.Close()
	relay(&bufferedConn{duplex: client, reader: bufio.NewReader(io.MultiReader(&start.read, client))}, fresh)
}

// clientConfig returns how to connect to a server.
func (t *terminator) clientConfig(address string, protocols []string) *tls.Config {
	host, _, _ := net.SplitHostPort(address)
	return &tls.Config{
		ServerName: host, RootCAs: t.Roots, InsecureSkipVerify: t.AllowInvalid, //nolint:gosec // as the browser of this launch
		NextProtos: protocols, MinVersion: tls.VersionTLS12,
		Certificates:  []tls.Certificate{t.ByAddress[strings.ToLower(address)]},
		Renegotiation: tls.RenegotiateFreelyAsClient, // servers that ask for a certificate after they have read the path
	}
}

// serverConfig returns how to answer the browser, with the protocol of the server.
func (t *terminator) serverConfig(address, protocol string) (*tls.Config, error) {
	host, _, _ := net.SplitHostPort(address)
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.DNSNames, template.IPAddresses = nil, []net.IP{ip}
	}
	leaf, err := issue(template, t.issuer)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{*leaf}, MinVersion: tls.VersionTLS12}
	if protocol != "" {
		config.NextProtos = []string{protocol}
	}
	return config, nil
}

// recordedConn records what is read until it is complete. Silent, it writes nothing.
type recordedConn struct {
	duplex
	read             bytes.Buffer
	complete, silent bool
}

// Read implements io.Reader.
func (c *recordedConn) Read(p []byte) (int, error) {
	n, err := c.duplex.Read(p)
	if !c.complete {
		c.read.Write(p[:n])
	}
	return n, err
}

// Write implements io.Writer.
func (c *recordedConn) Write(p []byte) (int, error) {
	if c.silent {
		return len(p), nil
	}
	return c.duplex.Write(p)
}
