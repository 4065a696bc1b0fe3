package pg

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/lib/pq"
)

const defaultPort = "5432"

// parseDSN parses a postgres:// URL or key=value pairs. With several hosts in libpq
// syntax (postgres://h1:5432,h2:5433/db), the first one that accepts writes is used,
// unless target_session_attrs is set. Errors do not contain the DSN, which may contain
// a password.
func parseDSN(dsn string) (pq.Config, error) {
	config, err := pq.NewConfig(portsAsParameter(dsn))
	if _, unreadable := errors.AsType[*url.Error](err); unreadable {
		err = errors.New("not a valid postgres:// URL; percent-encode special characters in the password")
	}
	if err != nil {
		return pq.Config{}, fmt.Errorf("parse the database URL: %w", err)
	}
	if len(config.Multi) > 0 && config.TargetSessionAttrs == "" {
		config.TargetSessionAttrs = pq.TargetSessionAttrsReadWrite
	}
	return config, nil
}

// portsAsParameter moves the ports of several hosts in a URL to the parameter port,
// because the driver supports several ports only there.
func portsAsParameter(dsn string) string {
	scheme, rest, isURL := strings.Cut(dsn, "://")
	if !isURL {
		return dsn
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	start := strings.LastIndexByte(rest[:end], '@') + 1
	hosts := strings.Split(rest[start:end], ",")
	if len(hosts) < 2 || !strings.Contains(rest[start:end], ":") {
		return dsn
	}
	ports := make([]string, len(hosts))
	for i, host := range hosts {
		ports[i] = defaultPort
		if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
			hosts[i], ports[i] = host[:colon], host[colon+1:]
		}
	}
	path, query, _ := strings.Cut(rest[end:], "?")
	if query != "" {
		query = "&" + query
	}
	return scheme + "://" + rest[:start] + strings.Join(hosts, ",") + path + "?port=" + url.QueryEscape(strings.Join(ports, ",")) + query
}
