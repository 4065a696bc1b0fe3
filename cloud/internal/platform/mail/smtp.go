package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"strconv"
	"time"

	gomail "github.com/wneessen/go-mail"
)

const (
	submissionPort  = 587 // STARTTLS
	submissionsPort = 465 // TLS from the first byte
)

// SMTP is a Transport to an SMTP server, with one connection per mail.
type SMTP struct {
	From    string         // the sender: an address, or "Name <address>"
	Host    string         // of the server; must match its certificate
	Port    int            // TCP port
	TLS     TLS            // the encryption of the connection
	User    string         // "" sends no credentials
	Secret  string         // the user's password; never logged
	RootCAs *x509.CertPool // trusted certificate authorities; nil means those of the system
}

// TLS is how a connection to a mail server is encrypted.
type TLS int

// The TLS modes. The zero value is STARTTLS.
const (
	StartTLS TLS = iota // required STARTTLS
	Implicit            // from the first byte
	NoTLS               // none; for a relay on the same host or network
)

// ParseSMTP parses the URL of a mail server: smtp://user:password@host:port
// requires STARTTLS, smtps:// uses implicit TLS, and smtp://host?tls=none uses no
// encryption and permits no credentials. The port is optional. Errors never
// contain the URL.
func ParseSMTP(address, sender string) (*SMTP, error) {
	if _, err := mail.ParseAddress(sender); err != nil {
		return nil, fmt.Errorf("the sender of mail must be an address: %w", err)
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.Path != "" && u.Path != "/" {
		return nil, errors.New("must be smtp://user:password@host:port or smtps://user:password@host:port")
	}
	s := &SMTP{From: sender, Host: u.Hostname(), User: u.User.Username()}
	s.Secret, _ = u.User.Password()
	port := submissionPort
	switch scheme, mode := u.Scheme, u.Query().Get("tls"); {
	case scheme == "smtps" && mode == "":
		s.TLS, port = Implicit, submissionsPort
	case scheme == "smtp" && mode == "":
	case scheme == "smtp" && mode == "none" && s.User == "":
		s.TLS, port = NoTLS, 25
	case scheme == "smtp" && mode == "none":
		return nil, errors.New("credentials are not allowed without TLS")
	default:
		return nil, errors.New("the scheme must be smtp or smtps, and the only option is tls=none")
	}
	if s.Port = port; u.Port() != "" {
		if s.Port, err = strconv.Atoi(u.Port()); err != nil || s.Port < 1 || s.Port > 65535 {
			return nil, errors.New("the port must be a number from 1 to 65535")
		}
	}
	return s, nil
}

// Deliver implements Transport. It returns when the server has accepted or
// refused the mail; a failed QUIT is ignored.
func (s *SMTP) Deliver(ctx context.Context, m Message) error {
	message, err := s.compose(m)
	if err != nil {
		return err
	}
	line := &connection{ctx: ctx}
	defer line.close()
	client, err := gomail.NewClient(s.Host, s.options(line)...)
	if err != nil {
		return fmt.Errorf("set up SMTP: %w", err)
	}
	err = client.DialAndSendWithContext(ctx, message)
	if message.IsDelivered() {
		return nil
	}
	if ctx.Err() != nil || isTimeout(err) {
		return fmt.Errorf("the mail server timed out: %w", errors.Join(ctx.Err(), err))
	}
	return classify(err)
}

// isTimeout reports whether the deadline caused the error. The connection has the
// context's deadline and may notice it slightly earlier.
func isTimeout(err error) bool {
	slow, ok := errors.AsType[net.Error](err)
	return ok && slow.Timeout()
}

func (s *SMTP) options(line *connection) []gomail.Option {
	all := []gomail.Option{
		gomail.WithPort(s.Port), gomail.WithTimeout(line.timeLeft()), gomail.WithoutNoop(), gomail.WithoutRset(),
		gomail.WithTLSConfig(s.tls()),
	}
	switch s.TLS {
	case Implicit:
		// Opportunistic, so that the client detects that the connection is already
		// encrypted.
		all = append(all, gomail.WithTLSPolicy(gomail.TLSOpportunistic), gomail.WithDialContextFunc(line.dialTLS(s.tls())))
	case NoTLS:
		all = append(all, gomail.WithTLSPolicy(gomail.NoTLS), gomail.WithDialContextFunc(line.dial))
	default:
		all = append(all, gomail.WithTLSPolicy(gomail.TLSMandatory), gomail.WithDialContextFunc(line.dial))
	}
	if s.User != "" {
		all = append(all, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(s.User), gomail.WithPassword(s.Secret))
	}
	return all
}

func (s *SMTP) tls() *tls.Config {
	return &tls.Config{ServerName: s.Host, RootCAs: s.RootCAs, MinVersion: tls.VersionTLS12}
}

// compose builds the message. Its Message-ID is the same in all attempts.
func (s *SMTP) compose(m Message) (*gomail.Msg, error) {
	message := gomail.NewMsg()
	if err := message.From(s.From); err != nil {
		return nil, fmt.Errorf("the sender of a mail: %w", err)
	}
	if err := message.To(m.To); err != nil {
		return nil, fmt.Errorf("%w: the recipient of a mail: %w", ErrPermanent, err)
	}
	message.SetMessageIDWithValue(messageID(m, s.From))
	message.SetDateWithValue(m.CreatedAt)
	message.SetGenHeader("Auto-Submitted", "auto-generated")
	message.Subject(m.Subject)
	message.SetBodyString(gomail.TypeTextPlain, m.Text)
	return message, nil
}

// classify returns ErrPermanent for a 5xx reply to the recipient or content, and
// other errors unchanged.
func classify(err error) error {
	refusal, ok := errors.AsType[*gomail.SendError](err)
	if !ok {
		return err
	}
	own := refusal.Reason == gomail.ErrSMTPRcptTo || refusal.Reason == gomail.ErrSMTPDataClose
	if own && refusal.ErrorCode() >= 500 {
		return fmt.Errorf("%w: %w", ErrPermanent, err)
	}
	return err
}

// connection tracks the connection of a delivery, which is closed when the
// context ends.
type connection struct {
	ctx  context.Context
	conn net.Conn
	stop func() bool
}

const defaultTimeLeft = time.Minute

// timeLeft returns the remaining time.
func (l *connection) timeLeft() time.Duration {
	deadline, ok := l.ctx.Deadline()
	if !ok {
		return defaultTimeLeft
	}
	return max(time.Until(deadline), time.Millisecond)
}

func (l *connection) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.conn, l.stop = conn, context.AfterFunc(l.ctx, func() { conn.Close() })
	return conn, nil
}

func (l *connection) dialTLS(config *tls.Config) gomail.DialContextFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := l.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(conn, config)
		return secure, secure.HandshakeContext(ctx)
	}
}

func (l *connection) close() {
	if l.conn != nil {
		l.stop()
		l.conn.Close()
	}
}
