// Command istiod is Istio's control plane as its modules have it, with one source of configuration:
// an MCP server. Istio's own program needs a Kubernetes to start; this one is given the empty one
// of Istio's tests. Tests of ours run it as a peer.
package main

import (
	"flag"
	"log"
	"os"
	"os/signal"
	"reflect"
	"syscall"
	"unsafe"

	"istio.io/istio/pilot/pkg/bootstrap"
	"istio.io/istio/pkg/ctrlz"
	"istio.io/istio/pkg/kube"
)

func main() {
	meshConfig := flag.String("mesh-config", "", "file of the MeshConfig, which names the sources of configuration")
	grpc := flag.String("grpc", "127.0.0.1:15010", "address for proxies, in plaintext")
	http := flag.String("http", "127.0.0.1:8080", "address of /ready and /debug")
	flag.Parse()
	if err := run(*meshConfig, *grpc, *http); err != nil {
		log.Fatal(err)
	}
}

func run(meshConfig, grpc, http string) error {
	args := bootstrap.NewPilotArgs(func(p *bootstrap.PilotArgs) {
		p.MeshConfigFile = meshConfig
		p.Namespace = "istio-system"
		p.PodName = "istiod"
		p.ServerOptions = bootstrap.DiscoveryServerOptions{GRPCAddr: grpc, HTTPAddr: http, MonitoringAddr: "127.0.0.1:0"}
		p.RegistryOptions.KubeOptions.DomainSuffix = "cluster.local"
		p.CtrlZOptions = ctrlz.DefaultOptions()
		p.CtrlZOptions.Port = 0
	})
	server, err := bootstrap.NewServer(args, withoutKubernetes)
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	if err := server.Start(stop); err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	<-ended
	close(stop)
	server.WaitUntilCompletion()
	return nil
}

// withoutKubernetes sets a field that only Istio's own tests can name.
func withoutKubernetes(s *bootstrap.Server) {
	field := reflect.ValueOf(s).Elem().FieldByName("kubeClient")
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(reflect.ValueOf(kube.NewFakeClient()))
}
