package mail_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/mail"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// server is a real mail server that stores the mails it receives.
type server struct {
	t       *testing.T
	address string
	port    string
	roots   *x509.CertPool

	mu       sync.Mutex
	mails    []received
	refusals map[string]error // by recipient
	content  error            // the reply to the content of a mail
	user     string           // the user that signed in last
}

// received is a mail as the server received it.
type received struct {
	sender, recipient string
	header            mail.Header
	body              string
	secure            bool
}

// serve starts a server on loopback. implicit means TLS from the first byte.
func serve(t *testing.T, implicit bool) *server {
	t.Helper()
	certificate, roots := newCertificate(t)
	s := &server{t: t, roots: roots, refusals: map[string]error{}}
	inner := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		_, secure := c.TLSConnectionState()
		return &session{server: s, secure: secure}, nil
	}))
	inner.Domain, inner.ErrorLog = "localhost", log.New(io.Discard, "", 0)
	config := &tls.Config{Certificates: []tls.Certificate{certificate}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	s.port = strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	if inner.TLSConfig = config; implicit {
		listener = tls.NewListener(listener, config)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = inner.Serve(listener) })
	t.Cleanup(func() { inner.Close(); running.Wait() })
	return s
}

func (s *server) received() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mails)
}

func (s *server) refuse(recipient string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusals[recipient] = err
}

func (s *server) signedIn() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.user
}

type session struct {
	server            *server
	secure            bool
	sender, recipient string
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "robot" || password != "hunter2" {
			return smtp.ErrAuthFailed
		}
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		s.server.user = user
		return nil
	}), nil
}

func (s *session) Mail(sender string, _ *smtp.MailOptions) error { s.sender = sender; return nil }

func (s *session) Rcpt(recipient string, _ *smtp.RcptOptions) error {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.recipient = recipient
	return s.server.refusals[recipient]
}

func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	message, err := mail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		return err
	}
	body, err := io.ReadAll(decoded(message))
	if err != nil {
		return err
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.server.content != nil {
		return s.server.content
	}
	s.server.mails = append(s.server.mails, received{sender: s.sender, recipient: s.recipient, header: message.Header, body: string(body), secure: s.secure})
	return nil
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }

func reply(code int, text string) error {
	return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{code / 100, 1, 1}, Message: text}
}

// startHangingServer starts a server that accepts connections and never answers.
func startHangingServer(t *testing.T) (port string, dialed func() int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []net.Conn
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		listener.Close()
		running.Wait()
		for _, conn := range conns {
			conn.Close()
		}
	})
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port), func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(conns)
	}
}

// newCertificate returns a certificate for localhost and the pool that trusts it.
func newCertificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// serverQuirk is unusual behavior of a server.
type serverQuirk int

const (
	rejectsAllMail serverQuirk = iota // fails the test if it receives credentials or a mail
	closesOnQuit                      // closes the connection on QUIT
)

// serveInClear starts a server without a certificate.
func serveInClear(t *testing.T, odd serverQuirk) *server {
	t.Helper()
	s := &server{t: t, refusals: map[string]error{}}
	inner := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &session{server: s}, nil }))
	inner.Domain, inner.ErrorLog, inner.AllowInsecureAuth = "localhost", log.New(io.Discard, "", 0), true
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.port = strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	if odd == closesOnQuit {
		listener = closingListener{listener}
	}
	var running sync.WaitGroup
	running.Go(func() { _ = inner.Serve(listener) })
	t.Cleanup(func() {
		inner.Close()
		running.Wait()
		if odd == rejectsAllMail && (s.user != "" || len(s.mails) > 0) {
			t.Error("a server without TLS received credentials or a mail")
		}
	})
	return s
}

// closingListener closes a connection when it reads QUIT.
type closingListener struct{ net.Listener }

func (l closingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return closingConn{conn}, err
}

type closingConn struct{ net.Conn }

func (c closingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if bytes.HasPrefix(b[:n], []byte("QUIT")) {
		c.Close()
		return 0, io.EOF
	}
	return n, err
}
