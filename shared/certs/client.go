package certs

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/browser-svc/svc/shared/proxyaddr"
)

// ClientInput is a client certificate for one origin, as clients give it: Cert and Key are
// PEM texts, or PFX is a PKCS #12 file in base64. Passphrase decrypts Key or PFX. The JSON
// names are those of the API.
type ClientInput struct {
	Origin     string `json:"origin"` // https://host[:port]
	Cert       string `json:"cert"`
	Key        string `json:"key"`
	PFX        string `json:"pfx"`
	Passphrase string `json:"passphrase"`
}

// Client is a client certificate for one origin. Cert and Key are PEM texts; Key is a secret.
type Client struct {
	Origin string `json:"origin"`
	Cert   string `json:"cert"`
	Key    string `json:"key"`
}

// Problem is an error of one field, by its JSON name. The message is for the caller and
// contains no secret.
type Problem struct{ Field, Message string }

// Check returns what is wrong without decrypting anything.
func (c ClientInput) Check() []Problem {
	if address(c.Origin) == "" {
		return []Problem{{"origin", "must be https://host or https://host:port, without a path or wildcard; international names in their xn-- form"}}
	}
	switch {
	case c.PFX != "" && (c.Cert != "" || c.Key != ""):
		return []Problem{{"pfx", "must not be given together with cert and key"}}
	case c.PFX != "":
		if _, err := base64.StdEncoding.DecodeString(c.PFX); err != nil {
			return []Problem{{"pfx", "must be base64"}}
		}
		return nil
	case c.Cert == "":
		return []Problem{{"cert", "is required, or pfx"}}
	case c.Key == "":
		return []Problem{{"key", "is required with cert"}}
	case c.Encrypted():
		return nil
	}
	return Client{c.Origin, c.Cert, c.Key}.check()
}

// Decode returns the certificate, and decrypts it if necessary.
func (c ClientInput) Decode(ctx context.Context) (Client, []Problem) {
	if problems := c.Check(); len(problems) > 0 {
		return Client{}, problems
	}
	if !c.Encrypted() {
		return Client{c.Origin, c.Cert, c.Key}, nil
	}
	client, problems := c.decryptInProcess(ctx)
	if len(problems) == 0 {
		problems = client.check()
	}
	return client, problems
}

// Encrypted reports whether the key has to be decrypted, in another process.
func (c ClientInput) Encrypted() bool {
	block, _ := pem.Decode([]byte(c.Key))
	return c.PFX != "" || block != nil && (block.Type == encryptedKey || block.Headers["DEK-Info"] != "")
}

func (c Client) check() []Problem {
	if block, _ := pem.Decode([]byte(c.Cert)); block == nil || block.Type != "CERTIFICATE" {
		return []Problem{{"cert", "must be a certificate in PEM format (-----BEGIN CERTIFICATE-----)"}}
	}
	if block, _ := pem.Decode([]byte(c.Key)); block == nil || !strings.HasSuffix(block.Type, "PRIVATE KEY") {
		return []Problem{{"key", "must be a private key in PEM format (-----BEGIN PRIVATE KEY-----)"}}
	}
	if _, err := c.TLS(); err != nil {
		return []Problem{{"key", "is not the key of the certificate, or one of them is damaged"}}
	}
	return nil
}

// TLS returns the certificate with its key.
func (c Client) TLS() (tls.Certificate, error) {
	return tls.X509KeyPair([]byte(c.Cert), []byte(c.Key))
}

// Address returns host:port of the origin, in lower case.
func (c Client) Address() string { return address(c.Origin) }

// hostName matches the names of hosts as browsers send them.
var hostName = regexp.MustCompile(`^[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?$`)

// address returns host:port as browsers send it, or "" for what is not an origin of https.
func address(origin string) string {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "https" || !proxyaddr.ValidHost(u) || (*u != url.URL{Scheme: u.Scheme, Host: u.Host}) {
		return ""
	}
	host, port := strings.ToLower(u.Hostname()), 443
	if ip, err := netip.ParseAddr(host); err == nil && ip.Zone() == "" {
		host = ip.String()
	} else if !hostName.MatchString(host) {
		return ""
	}
	if u.Port() != "" {
		port, _ = strconv.Atoi(u.Port()) // ValidHost has checked it
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// maxSubject is the size of a subject that is shown, in characters.
const maxSubject = 1024

// Public returns what may be shown of the certificate: its subject, without control
// characters and of limited size, and its expiry.
func (c Client) Public() (subject string, expires time.Time) {
	certificate, err := c.TLS()
	if err != nil {
		return "", time.Time{}
	}
	characters := []rune(certificate.Leaf.Subject.String())
	for i, character := range characters {
		if unicode.IsControl(character) {
			characters[i] = unicode.ReplacementChar
		}
	}
	return string(characters[:min(len(characters), maxSubject)]), certificate.Leaf.NotAfter.UTC()
}

// CheckClients returns what is wrong with a list without decrypting anything. Fields have the
// form [index].name.
func CheckClients(list []ClientInput) []Problem { return checkList(list, ClientInput.Check) }

func checkList(list []ClientInput, check func(ClientInput) []Problem) (problems []Problem) {
	servers := map[string]bool{}
	for i, input := range list {
		found := check(input)
		server := address(input.Origin)
		if len(found) == 0 && servers[server] {
			found = []Problem{{"origin", "must not be that of another client certificate"}}
		}
		servers[server] = true
		problems = append(problems, withIndex(i, found)...)
	}
	return problems
}

// DecodeClients returns the certificates of a list, as ClientInput.Decode does. It stops at
// the first one that cannot be decrypted.
func DecodeClients(ctx context.Context, list []ClientInput) ([]Client, []Problem) {
	clients, problems := DecodeUpdate(ctx, list)
	if len(problems) > 0 {
		return nil, problems
	}
	return Complete(clients, nil)
}

func withIndex(i int, problems []Problem) (list []Problem) {
	for _, problem := range problems {
		list = append(list, Problem{fmt.Sprintf("[%d].%s", i, problem.Field), problem.Message})
	}
	return list
}
