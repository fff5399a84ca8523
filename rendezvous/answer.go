package rendezvous

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// What answers at the store's port may be no etcd. Its client and this package take some parts of an
// answer for granted: what lacks them is an error of the request.

var errNoEtcd = errors.New("the answer is not one of an etcd")

// sound returns an error if an answer lacks what each answer of an etcd has.
func sound(answer any) error {
	if a, ok := answer.(interface{ GetHeader() *pb.ResponseHeader }); ok && a.GetHeader() == nil {
		return errNoEtcd
	}
	w, _ := answer.(*pb.WatchResponse)
	return soundEvents(w)
}

func soundEvents(w *pb.WatchResponse) error {
	for _, e := range w.GetEvents() {
		if e.GetKv() == nil {
			return errNoEtcd
		}
	}
	return nil
}

// checked returns the options of a client whose answers are whole.
func checked() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, ask, answer any, c *grpc.ClientConn,
			call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if err := call(ctx, method, ask, answer, c, opts...); err != nil {
				return err
			}
			return sound(answer)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, c *grpc.ClientConn, method string,
			open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := open(ctx, d, c, method, opts...)
			if err != nil || method == "/"+enterService+"/"+enterMethod { // which ask checks
				return s, err
			}
			return soundStream{s}, nil
		}),
	}
}

type soundStream struct{ grpc.ClientStream }

func (s soundStream) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	return sound(m)
}
