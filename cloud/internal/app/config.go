package app

import (
	"fmt"
	"net/netip"
	"net/url"
	"time"

	"github.com/browser-svc/svc/shared/program"
)

// Config is the cloud's configuration.
type Config struct {
	Host           string         `env:"HOST" doc:"The address to listen on; all addresses when unset."`
	Port           int            `env:"PORT" envDefault:"8080" doc:"The port to listen on."`
	PublicURL      string         `env:"PUBLIC_URL" doc:"Where browsers reach the service; http://localhost:PORT when unset. With https, cookies are Secure."`
	DatabaseURL    string         `env:"DATABASE_URL" secret:"true" doc:"The PostgreSQL to use. When unset, the cloud runs one of its own in DATA_DIR."`
	DataDir        string         `env:"DATA_DIR" envDefault:".svc/cloud" doc:"Where the cloud's own PostgreSQL, the key of SECRET_KEYS and browser builds live."`
	ReleasesURL    string         `env:"RELEASES_URL" secret:"true" doc:"Where the browser builds of the catalog are kept: a file://, s3:// or gs:// URL; DATA_DIR/releases when unset."`
	SecretKeys     string         `env:"SECRET_KEYS" secret:"true" doc:"The keys that proxy passwords are encrypted with, as id:base64 of 32 bytes, separated by commas; the first one encrypts. When unset, one is made and kept in DATA_DIR."`
	ReapInterval   time.Duration  `env:"REAP_INTERVAL" envDefault:"15s" doc:"How often slots whose worker is gone are given back."`
	TrustedProxies []netip.Prefix `env:"TRUSTED_PROXIES" doc:"The networks of load balancers whose X-Forwarded-For is believed, separated by commas."`
	Logging        program.Logging
}

// Validate checks what one variable's type can't.
func (c Config) Validate() error {
	if _, err := c.public(); err != nil {
		return err
	}
	if c.ReapInterval < time.Second {
		return fmt.Errorf("REAP_INTERVAL must be at least 1s")
	}
	return nil
}

// public is where browsers reach the service.
func (c Config) public() (*url.URL, error) {
	address := c.PublicURL
	if address == "" {
		address = fmt.Sprintf("http://localhost:%d", c.Port)
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("PUBLIC_URL must be an http or https URL")
	}
	return base, nil
}
