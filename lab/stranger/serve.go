package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// modes are stores that are none: each answers every call in its own way, by gRPC.
var modes = map[string]func(grpc.ServerStream) error{
	"never answers":  func(s grpc.ServerStream) error { <-s.Context().Done(); return nil },
	"says nothing":   func(grpc.ServerStream) error { return nil },
	"is unavailable": func(grpc.ServerStream) error { return status.Error(codes.Unavailable, "no") },
	"fails": func(grpc.ServerStream) error {
		return status.Error(codes.Internal, "\x1b[31m"+rand.Text()) // each time another
	},
	"sends noise": func(s grpc.ServerStream) error {
		for s.Context().Err() == nil {
			if err := s.SendMsg(&pb.LeaseGrantResponse{Error: rand.Text(), TTL: -1}); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
		return nil
	},
	"grants, and is silent": func(s grpc.ServerStream) error {
		err := grants(s)
		<-s.Context().Done()
		return err
	},
	"grants no time": func(s grpc.ServerStream) error {
		return errors.Join(s.RecvMsg(&pb.LeaseGrantRequest{}), s.SendMsg(&pb.LeaseGrantResponse{ID: 7, TTL: 0}))
	},
	"refuses for ever": func(s grpc.ServerStream) error {
		err := grants(s)
		for err == nil {
			if err = s.RecvMsg(&pb.TxnRequest{}); err == nil {
				err = s.SendMsg(&pb.TxnResponse{Header: &pb.ResponseHeader{Revision: 5}})
			}
		}
		return err
	},
	"event without a key": func(s grpc.ServerStream) error {
		err := errors.Join(grants(s), s.RecvMsg(&pb.TxnRequest{}),
			s.SendMsg(&pb.TxnResponse{Header: &pb.ResponseHeader{Revision: 5}, Succeeded: true}))
		if err == nil {
			err = s.SendMsg(&pb.WatchResponse{Events: []*mvccpb.Event{{}}})
		}
		<-s.Context().Done()
		return err
	},
	"registers, and floods": func(s grpc.ServerStream) error {
		err := errors.Join(grants(s), s.RecvMsg(&pb.TxnRequest{}),
			s.SendMsg(&pb.TxnResponse{Header: &pb.ResponseHeader{Revision: 5}, Succeeded: true}))
		for rev := int64(6); err == nil; rev++ {
			err = s.SendMsg(&pb.WatchResponse{Events: []*mvccpb.Event{{Kv: &mvccpb.KeyValue{
				Key: []byte("/launch/x/c/epoch"), Value: []byte(rand.Text()), ModRevision: rev}}}})
		}
		return err
	},
}

func grants(s grpc.ServerStream) error {
	return errors.Join(s.RecvMsg(&pb.LeaseGrantRequest{}),
		s.SendMsg(&pb.LeaseGrantResponse{Header: &pb.ResponseHeader{Revision: 1}, ID: 7, TTL: 10}))
}

// serve answers at the store's port until it is killed.
func serve(mode string) error {
	do, ok := modes[mode]
	if !ok {
		return fmt.Errorf("no mode %q", mode)
	}
	l, err := net.Listen("tcp", ":29377")
	if err != nil {
		return err
	}
	fmt.Println("listens")
	return grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error { return do(s) })).Serve(l)
}
