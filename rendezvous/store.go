package rendezvous

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
)

// Store is where the job meets.
type Store struct {
	// Endpoints are http(s) URLs of an external etcd, or host:port of the
	// embedded one. Names are resolved again at every reconnect.
	Endpoints []string `json:"endpoints"`
	// Job, where set, is the job whose embedded store must answer there.
	Job string `json:"job,omitempty"`
}

func (s Store) String() string { return strings.Join(s.Endpoints, ",") }

// storeKey says whose store an embedded one is.
const storeKey = "/launch/store"

// identity is what stands at storeKey.
type identity struct {
	Job  string `json:"job"`
	Host string `json:"host"`
	PID  int    `json:"pid"`
}

// OtherStoreError: something answers there, but it is another job's store.
type OtherStoreError struct{ Endpoint, Job, Host string }

func (e *OtherStoreError) Error() string {
	return fmt.Sprintf("the store at %s is the one of job %q on %s", e.Endpoint, e.Job, e.Host)
}

// Connect dials the store and waits until it answers, with full jitter between
// tries, until ctx ends. tell, where not nil, is called after the first failed
// try and whenever the reason changes. The error wraps ErrUnreachable where
// nothing answered.
func Connect(ctx context.Context, s Store, tell func(error)) (*clientv3.Client, error) {
	cfg := clientv3.Config{
		Endpoints:            s.Endpoints,
		DialKeepAliveTime:    10 * time.Second, // below 5 s etcd answers "too many pings"
		DialKeepAliveTimeout: 3 * time.Second,
		PermitWithoutStream:  true,
		Logger:               zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           grpcbackoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.5, MaxDelay: retryMax},
			MinConnectTimeout: 2 * time.Second,
		})},
	}
	for _, e := range s.Endpoints {
		if strings.HasPrefix(e, "https://") {
			cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
	c, err := clientv3.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", s, err)
	}
	told := ""
	op := func() error {
		err := s.answers(ctx, c)
		var other *OtherStoreError
		if errors.As(err, &other) {
			return backoff.Permanent(err)
		}
		if err != nil && ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			if tell != nil {
				tell(err)
			}
		}
		return err
	}
	if err := backoff.Retry(op, backoff.WithContext(retries(retryMax), ctx)); err != nil {
		c.Close()
		var other *OtherStoreError
		if errors.As(err, &other) {
			return nil, err
		}
		if told == "" {
			told = err.Error()
		}
		return nil, fmt.Errorf("%w: %s: %s", ErrUnreachable, s, told)
	}
	return c, nil
}

// retries is exponential with jitter and without an end of its own: ctx ends it
// (backoff's default would give up silently after 15 minutes).
func retries(max time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMultiplier(1.7),
		backoff.WithRandomizationFactor(0.5),
		backoff.WithMaxInterval(max),
		backoff.WithMaxElapsedTime(0))
}

// answers asks the store one linearizable question: it answers, and (for an
// embedded one) it is this job's.
func (s Store) answers(ctx context.Context, c *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	if err := s.dial(ctx); err != nil {
		return err
	}
	r, err := c.Get(ctx, storeKey)
	if err != nil {
		return reason(ctx, err)
	}
	if s.Job == "" {
		return nil
	}
	if len(r.Kvs) == 0 {
		return errors.New("an etcd answers there that is not launch's")
	}
	var id identity
	if err := json.Unmarshal(r.Kvs[0].Value, &id); err != nil {
		return fmt.Errorf("read %s: %w", storeKey, err)
	}
	if id.Job != s.Job {
		return &OtherStoreError{Endpoint: s.String(), Job: id.Job, Host: id.Host}
	}
	return nil
}

// dial connects to one of the endpoints and hangs up: the etcd client would
// retry a refused connection until its deadline and then not say why.
func (s Store) dial(ctx context.Context) error {
	var errs []error
	for _, e := range s.Endpoints {
		host := e
		if u, err := url.Parse(e); err == nil && u.Host != "" {
			host = u.Host
		}
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
		if err == nil {
			return c.Close()
		}
		errs = append(errs, reason(ctx, err))
	}
	return errors.Join(errs...)
}

// reason says in a few words why a request failed: gRPC wraps the one useful
// part in three layers.
func reason(ctx context.Context, err error) error {
	msg := err.Error()
	if i := strings.LastIndex(msg, `desc = "`); i >= 0 {
		msg = strings.TrimSuffix(msg[i+len(`desc = "`):], `"`)
	} else if i := strings.LastIndex(msg, "desc = "); i >= 0 {
		msg = msg[i+len("desc = "):]
	}
	if i := strings.LastIndex(msg, "dial tcp "); i >= 0 {
		msg = strings.Trim(msg[i+len("dial tcp "):], `"`)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded) && strings.Contains(msg, "context deadline exceeded") {
		msg = "no answer within " + opTimeout.String()
	}
	return errors.New(strings.TrimSuffix(msg, `\"`))
}

// newID is a random identity.
func newID() string { return fmt.Sprintf("%016x", rand.Uint64()) }
