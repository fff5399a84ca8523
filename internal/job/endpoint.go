package job

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"launch/internal/setting"
)

// defaultEtcdPort is the client port registered for etcd.
const defaultEtcdPort = "2379"

var (
	hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*)$`)
	digits   = regexp.MustCompile(`^[0-9]+$`)
)

// splitHostPort splits host[:port], [v6][:port] or a bare IPv6 address; port is "" if missing.
func splitHostPort(s string) (host, port string, err error) {
	if rest, ok := strings.CutPrefix(s, "["); ok {
		host, rest, ok = strings.Cut(rest, "]")
		port, colon := strings.CutPrefix(rest, ":")
		if !ok || rest != "" && (!colon || port == "") {
			return "", "", errors.New("an IPv6 address with a port is written [ADDRESS]:PORT")
		}
		return host, port, nil
	}
	switch strings.Count(s, ":") {
	case 0:
		return s, "", nil
	case 1:
		host, port, _ = strings.Cut(s, ":")
		if port == "" {
			return "", "", errors.New("the port after ':' is missing")
		}
		return host, port, nil
	}
	if _, err := netip.ParseAddr(s); err != nil {
		return "", "", errors.New("an IPv6 address with a port is written [ADDRESS]:PORT")
	}
	return s, "", nil
}

// hostPort parses and checks a claim as host[:port]; port is 0 if missing.
func (c claim) hostPort() (string, int, error) {
	const fix = "write it as HOST or HOST:PORT"
	host, text, err := splitHostPort(c.raw)
	if err != nil {
		return "", 0, c.refuse(fix, "%v", err)
	}
	if err := c.checkHost(host); err != nil {
		return "", 0, err
	}
	if text == "" {
		return host, 0, nil
	}
	if text == "0" && c.from.Tier != setting.Explicit {
		return host, 0, nil // torchrun's "any port"
	}
	port, err := readPort(text)
	if err != nil {
		return "", 0, c.refuse(fix, "%v", err)
	}
	return host, port, nil
}

func (c claim) checkHost(host string) error {
	if digits.MatchString(host) {
		return contradiction("write it as HOST or HOST:PORT, where HOST is one of the nodes",
			"%s: %q is a number, not a host; is it a port or a count?", c, host)
	}
	if _, err := netip.ParseAddr(host); err == nil || hostName.MatchString(host) {
		return nil
	}
	return c.refuse("write it as HOST or HOST:PORT",
		"%q is not a host name or address (a variable that was not expanded?)", host)
}

func parsePort(c claim) (int, error) {
	n, err := readPort(c.raw)
	if err != nil {
		return 0, c.refuse(c.from.Name+" takes a number from 1 to 65535", "%v", err)
	}
	return n, nil
}

func readPort(s string) (int, error) {
	n, err := strconv.Atoi(s)
	switch {
	case err != nil && !digits.MatchString(s):
		return 0, fmt.Errorf("%q is not a port", s)
	case err != nil || n < 1 || n > 65535:
		return 0, fmt.Errorf("port %s is out of range: ports run from 1 to 65535", s)
	}
	return n, nil
}

// NextPort returns the endpoint with the next port, for a port in use. An invalid
// endpoint gives a pattern.
func NextPort(endpoint string) string {
	host, text, err := net.SplitHostPort(endpoint)
	port, perr := readPort(text)
	switch {
	case err != nil || perr != nil:
		host, port = "HOST", DefaultStorePort+1
	case port == 65535:
		port--
	default:
		port++
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

func embedded(host string, port int) Store {
	endpoint := net.JoinHostPort(host, strconv.Itoa(port))
	return Store{Embedded: true, Host: host, Port: port, Endpoints: []string{endpoint}}
}

// parseStore parses --store: HOST, HOST:PORT and [v6]:PORT name the store host of
// an embedded store, http(s)://HOST:PORT[,HOST:PORT] an etcd that runs already.
func parseStore(c claim) (Store, error) {
	scheme, rest, external := strings.Cut(c.raw, "://")
	if !external {
		if strings.Contains(c.raw, ",") {
			return Store{}, c.refuse("--store http://"+c.raw,
				"several endpoints belong to an etcd that runs already: http://A:2379,B:2379")
		}
		host, port, err := c.hostPort()
		if err != nil {
			return Store{}, err
		}
		if port == 0 {
			port = DefaultStorePort
		}
		return embedded(host, port), nil
	}
	if scheme != "http" && scheme != "https" {
		return Store{}, c.refuse("--store http://HOST:2379", "%q is not http or https", scheme)
	}
	var s Store
	for part := range strings.SplitSeq(rest, ",") {
		part = strings.TrimPrefix(part, scheme+"://")
		u, err := url.Parse(scheme + "://" + part)
		if err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" ||
			u.Fragment != "" {
			return Store{}, c.refuse("--store "+scheme+"://HOST:2379", "an endpoint is HOST:PORT and nothing else")
		}
		if err := c.checkHost(u.Hostname()); err != nil {
			return Store{}, err
		}
		port := u.Port()
		if port == "" {
			port = defaultEtcdPort
		}
		if _, err := readPort(port); err != nil {
			return Store{}, c.refuse("--store "+scheme+"://HOST:2379", "%v", err)
		}
		s.Endpoints = append(s.Endpoints, scheme+"://"+net.JoinHostPort(u.Hostname(), port))
	}
	return s, nil
}
