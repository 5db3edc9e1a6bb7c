// Command istiod is Istio's control plane as its modules have it, which tests of ours run as a peer.
//
// With a kubeconfig it reads that cluster, as in production, and is the authority of its proxies. Without
// one its only source of configuration is an MCP server: Istio's own program needs a Kubernetes to
// start, and this one is given the empty one of Istio's tests.
// The module pins Istio's agent, too.
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
	"istio.io/istio/pilot/pkg/serviceregistry/provider"
	"istio.io/istio/pkg/ctrlz"
	"istio.io/istio/pkg/kube"
)

// settings are what the flags say.
type settings struct {
	meshConfig, kubeconfig string
	grpc, secure, http     string
}

func main() {
	var s settings
	flag.StringVar(&s.meshConfig, "mesh-config", "", "file of the MeshConfig, which names the sources of configuration")
	flag.StringVar(&s.kubeconfig, "kubeconfig", "", "file that says which cluster to read; without it there is none")
	flag.StringVar(&s.grpc, "grpc", "127.0.0.1:15010", "address for proxies, in plaintext")
	flag.StringVar(&s.secure, "secure-grpc", "", "address for proxies and their certificates, over TLS; with a cluster only")
	flag.StringVar(&s.http, "http", "127.0.0.1:8080", "address of /ready and /debug")
	flag.Parse()
	if err := s.run(); err != nil {
		log.Fatal(err)
	}
}

func (s *settings) run() error {
	var more []func(*bootstrap.Server)
	if s.kubeconfig == "" {
		more = append(more, withoutKubernetes)
	}
	server, err := bootstrap.NewServer(bootstrap.NewPilotArgs(s.apply), more...)
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

func (s *settings) apply(p *bootstrap.PilotArgs) {
	p.MeshConfigFile = s.meshConfig
	p.Namespace = "istio-system"
	p.PodName = "istiod"
	p.ServerOptions = bootstrap.DiscoveryServerOptions{GRPCAddr: s.grpc, SecureGRPCAddr: s.secure, HTTPAddr: s.http, MonitoringAddr: "127.0.0.1:0"}
	p.RegistryOptions.KubeOptions.DomainSuffix = "cluster.local"
	p.CtrlZOptions = ctrlz.DefaultOptions()
	p.CtrlZOptions.Port = 0
	if s.kubeconfig != "" {
		p.RegistryOptions.KubeConfig = s.kubeconfig
		p.RegistryOptions.Registries = []string{string(provider.Kubernetes)}
		p.RegistryOptions.KubeOptions.KubernetesAPIQPS, p.RegistryOptions.KubeOptions.KubernetesAPIBurst = 80, 160 // Istio's defaults
	}
}

// withoutKubernetes sets a field that only Istio's own tests can name.
func withoutKubernetes(s *bootstrap.Server) {
	field := reflect.ValueOf(s).Elem().FieldByName("kubeClient")
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(reflect.ValueOf(kube.NewFakeClient()))
}
