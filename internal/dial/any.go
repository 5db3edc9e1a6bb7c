package dial

import (
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// Any connects to the first of several addresses that answers.
func Any(addresses []string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	list := manual.NewBuilderWithScheme("pgmesh")
	state := resolver.State{}
	for _, address := range addresses {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("%s: expected host:port: %w", address, err)
		}
		state.Addresses = append(state.Addresses, resolver.Address{Addr: address, ServerName: host})
	}
	list.InitialState(state)
	return grpc.NewClient(list.Scheme()+":///"+addresses[0], append(options, grpc.WithResolvers(list), grpc.WithDisableServiceConfig())...)
}
