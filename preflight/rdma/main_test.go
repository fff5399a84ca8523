package rdma

import (
	"fmt"
	"net"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Getenv("PINGPONG") != "" {
		pingPong(os.Args[1], os.Args[2])
		return
	}
	goleak.VerifyTestMain(m)
}

// pingPong stands in for fi_pingpong: one end listens at its port until the other one has come, which prints the table.
func pingPong(flag, port string) {
	if flag == "-B" {
		l, err := net.Listen("tcp", ":"+port)
		if err == nil {
			_, err = l.Accept()
		}
		if err != nil {
			panic(err)
		}
		return
	}
	if _, err := net.Dial("tcp", "127.0.0.1:"+port); err != nil {
		panic(err)
	}
	fmt.Println("bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec")
	fmt.Println("64k     10      =10      1.2m        0.00s   2340.50       28.00       0.04")
}
