package rendezvous

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/grpclog"
)

// Client is a connection to a store.
type Client = clientv3.Client

// Store is the etcd in which the nodes of a job agree.
type Store struct {
	// Endpoints are http(s) URLs of an external etcd, or host:port of the embedded
	// one; each reconnect resolves names again.
	Endpoints []string `json:"endpoints"`
	// Job, where set, is the job whose embedded store must answer there.
	Job string `json:"job,omitempty"`
	// Later: another node of the job hosts the store, perhaps not yet, and the registration checks its job
	// (Config.OwnStore): Connect then checks only that a store answers.
	Later bool `json:"-"`
	// Nodes is how many use the store at once, as far as is known: they
	// spread their first request, and the tries that follow.
	Nodes int `json:"-"`
	// TLS, where set, protects the connection to a store of launch.
	TLS *TLS `json:"-"`
	// Access has the credentials for an external etcd.
	Access Access `json:"-"`
	// Hangup, where set, remembers when the store closed a connection.
	Hangup *Hangup `json:"-"`
}

// TLS is the mutual TLS of an embedded store: client and server present the same
// certificate.
type TLS struct{ Client, Server *tls.Config }

// TokenName is the name in a certificate that is made from a token. By this name a
// node without a token recognizes what is missing.
const TokenName = "launch"

// ErrToken reports that this node and the store do not have the same secret.
var ErrToken = errors.New("this node and the store do not share a secret")

// crowd returns the load of the joining nodes on this store, in nodes.
func (s Store) crowd() int { return crowd(s.Nodes, s.Job == "") }

func (s Store) String() string { return strings.Join(s.Endpoints, ",") }

const (
	// buffer is for messages of a few hundred bytes; gRPC's own 32 KB, twice for
	// each of thousands of connections, are most of what a store would allocate.
	buffer = 4 << 10
	// window is how much may be under way unread: more than the leader of thousands
	// of nodes has ever had. With a fixed window gRPC sends no ping with each message
	// to measure the connection.
	window = 1 << 20
)

// silenceGRPC discards gRPC's own log, which repeats the errors on stderr, unless a user
// asks for it (grpc-go, Documentation/log_levels.md).
var silenceGRPC = sync.OnceFunc(func() {
	if os.Getenv("GRPC_GO_LOG_SEVERITY_LEVEL") == "" {
		grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	}
})

// Connect dials the store and waits until it answers, with full jitter between
// tries, until ctx ends. It calls report, where not nil, once for each reason why a
// try failed. The error wraps ErrUnreachable where nothing answered.
func Connect(ctx context.Context, s Store, report func(error)) (*clientv3.Client, error) {
	silenceGRPC()
	cfg, err := s.config()
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(stagger(s.crowd())):
	case <-ctx.Done():
	}
	var c *clientv3.Client
	last, reported, began := "", map[string]bool{}, time.Now()
	op := func() (err error) {
		if c == nil { // with a user, New logs in
			if c, err = clientv3.New(cfg); err != nil && !refused(err) {
				err = cmp.Or(s.dial(ctx), err)
			}
		}
		if err == nil {
			err = s.answers(ctx, c)
		}
		if refused(err) {
			err = fmt.Errorf("%w: %w", ErrAccess, reason(ctx, err))
		}
		if final(err) {
			return backoff.Permanent(err)
		}
		if err != nil && ctx.Err() == nil {
			last = reason(ctx, err).Error()
			if soon := s.Later && time.Since(began) < calm; report != nil && !reported[last] && !soon {
				reported[last] = true
				report(errors.New(s.explained(last)))
			}
		}
		return err
	}
	if err := backoff.Retry(op, backoff.WithContext(retries(s.crowd()), ctx)); err != nil {
		if c != nil {
			c.Close()
		}
		if final(err) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %s: %s", ErrUnreachable, s, s.explained(last))
	}
	return c, nil
}

// calm is for how long a store that another node of the job hosts may be missing without a word: nodes do not
// start in the same second.
const calm = 4 * time.Second

// hosts returns the endpoints as host:port.
func (s Store) hosts() []string {
	out := slices.Clone(s.Endpoints)
	for i, e := range out {
		if u, err := url.Parse(e); err == nil && u.Host != "" {
			out[i] = u.Host
		}
	}
	return out
}

// config returns the settings of the client.
func (s Store) config() (cfg clientv3.Config, err error) {
	cfg = clientv3.Config{
		Endpoints: s.Endpoints,
		Username:  s.Access.User,
		Password:  s.Access.Password,
		// Below 5 s etcd answers "too many pings", and so it does soon, whatever
		// the time, to a ping on a connection without a stream.
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: pingTimeout,
		DialTimeout:          opTimeout,
		Logger:               zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: grpcbackoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.6, Jitter: 0.5,
				MaxDelay: retryMax + spread(s.crowd())},
			MinConnectTimeout: 6*time.Second + queue(s.crowd()),
		}), grpc.WithReadBufferSize(buffer), grpc.WithWriteBufferSize(buffer),
			grpc.WithStaticConnWindowSize(window), grpc.WithStaticStreamWindowSize(window),
			grpc.WithContextDialer(s.dialTrusted),
			grpc.WithNoProxy()}, // HTTPS_PROXY leads out of a site, to none of its nodes
	}
	cfg.DialOptions = append(cfg.DialOptions, checked()...)
	cfg.TLS, err = s.tlsConfig()
	return cfg, err
}

// pingTimeout is how long the store may take to answer a ping on a connection.
const pingTimeout = 3 * time.Second

// final returns whether another try would get the same answer.
func final(err error) bool {
	_, other := errors.AsType[*OtherStoreError](err)
	return other || errors.Is(err, ErrToken) || errors.Is(err, ErrAccess) || errors.Is(err, ErrForeign)
}

// answers makes one linearizable request, and returns nil where the store answers and
// (if embedded) is this job's. With Later a connection is enough, since it is made once
// the other end has sent its settings of HTTP/2 (RFC 9113, 3.4).
func (s Store) answers(ctx context.Context, c *clientv3.Client) error {
	ctx = within(ctx, s.crowd())
	if connected(ctx, c.ActiveConnection()) {
		if s.Later {
			return nil
		}
	} else if err := s.dial(ctx); err != nil {
		return err
	}
	r, err := c.Get(ctx, storeKey)
	if err != nil && !refused(err) { // a handshake may have the reason
		again, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
		defer cancel()
		return cmp.Or(s.dial(again), reason(ctx, err))
	}
	if err != nil {
		return err
	}
	switch {
	case s.Job == "":
		return nil
	case len(r.Kvs) == 0:
		return owned(s.String(), s.Job, nil)
	}
	return owned(s.String(), s.Job, r.Kvs[0].Value)
}

// connected waits until the client has a connection (true), or failed to make one.
func connected(ctx context.Context, c *grpc.ClientConn) bool {
	c.Connect()
	for {
		switch state := c.GetState(); {
		case state == connectivity.Ready:
			return true
		case state == connectivity.TransientFailure, !c.WaitForStateChange(ctx, state):
			return false
		}
	}
}

// tlsConfig returns the TLS settings for the store; nil: none.
func (s Store) tlsConfig() (*tls.Config, error) {
	t, err := s.Access.Config()
	switch {
	case err != nil:
		return nil, unusable{err}
	case t != nil:
		return t, nil
	case s.TLS != nil:
		return s.TLS.Client, nil
	case strings.HasPrefix(s.Endpoints[0], "https://"):
		return &tls.Config{MinVersion: tls.VersionTLS12}, nil
	}
	return nil, nil
}

// reason returns the useful part of a request's error: gRPC wraps it in three layers.
func reason(ctx context.Context, err error) error {
	if errors.Is(rpctypes.Error(err), rpctypes.ErrNoSpace) {
		return ErrFull
	}
	msg := err.Error()
	if i := strings.LastIndex(msg, `desc = "`); i >= 0 {
		msg = strings.TrimSuffix(msg[i+len(`desc = "`):], `"`)
	} else if i := strings.LastIndex(msg, "desc = "); i >= 0 {
		msg = msg[i+len("desc = "):]
	}
	if i := strings.LastIndex(msg, "dial tcp "); i >= 0 {
		msg = strings.Trim(msg[i+len("dial tcp "):], `"`)
		if _, why, ok := strings.Cut(msg, ": "); ok {
			msg = why // the message has the address already
		}
	}
	if _, to, ok := strings.Cut(msg, "->"); ok { // read tcp FROM->TO: read: why; each try is from another port
		_, why, _ := strings.Cut(to, ": ")
		msg = cmp.Or(strings.TrimPrefix(strings.TrimPrefix(why, "read: "), "write: "), msg)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded) &&
		strings.Contains(msg, "context deadline exceeded") {
		msg = noAnswer
	}
	if i := strings.Index(msg, LongPackets); i >= 0 {
		msg = msg[i:]
	}
	return errors.New(strings.TrimSuffix(msg, `\"`))
}
