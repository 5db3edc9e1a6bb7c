package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/registry/kubernetes/client"
	"github.com/pgmesh/pgmesh/registry/kubernetes/follow"
	"github.com/pgmesh/pgmesh/registry/kubernetes/kubeconfig"
)

// What is read of an object is the same, whether it comes as protobuf or as JSON: of lists, and of
// changes.
func TestBothEncodingsSayTheSame(t *testing.T) {
	c := kubetest.Start(t)
	c.Namespace("shop")
	begin := versionOf(t, c, "/api/v1/namespaces/shop/services")
	writeEverything(c)
	sameBoth[serviceObject](t, c, "/api/v1/namespaces/shop/services", begin)
	sameBoth[sliceObject](t, c, "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices", begin)
	sameBoth[podObject](t, c, "/api/v1/namespaces/shop/pods", begin)
	sameBoth[nodeObject](t, c, "/api/v1/nodes", begin, ".Metadata.bare.Namespace")
}

// writeEverything writes objects that have every field that is read.
func writeEverything(c *kubetest.Cluster) {
	c.ApplyNode("one", "eu", "a")
	c.ApplyStatus(kubetest.NodePath("one"), kubetest.Object{
		"apiVersion": "v1", "kind": "Node", "metadata": kubetest.Object{"name": "one"},
		"status": kubetest.Object{"addresses": []kubetest.Object{{"type": "ExternalIP", "address": "192.0.2.1"}}},
	})
	c.Apply(kubetest.ServicePath("shop", "web"), kubetest.Object{
		"apiVersion": "v1", "kind": "Service",
		"metadata": kubetest.Object{"name": "web", "labels": kubetest.Object{"a": "b", "c": ""}, "annotations": kubetest.Object{"d": "e"}},
		"spec": kubetest.Object{
			"type": "LoadBalancer", "selector": kubetest.Object{"app": "web"}, "externalIPs": []string{"192.0.2.1", "192.0.2.2"}, "trafficDistribution": "PreferSameZone",
			"ports": []kubetest.Object{
				{"name": "http", "port": 80, "targetPort": 8080, "nodePort": 30080, "appProtocol": "kubernetes.io/h2c"},
				{"name": "dns", "port": 53, "targetPort": "dns", "protocol": "UDP"},
			},
		},
	})
	c.ApplyStatus(kubetest.ServicePath("shop", "web"), kubetest.Object{
		"apiVersion": "v1", "kind": "Service", "metadata": kubetest.Object{"name": "web"},
		"status": kubetest.Object{"loadBalancer": kubetest.Object{"ingress": []kubetest.Object{{"ip": "192.0.2.3"}, {"hostname": "lb.example.com"}}}},
	})
	c.ApplyService(kubetest.Service{Namespace: "shop", Name: "elsewhere", Port: 80, More: kubetest.Object{"type": "ExternalName", "externalName": "api.example.com"}})
	c.ApplySlice(kubetest.Slice{Namespace: "shop", Name: "web-1", Service: "web", Port: 8080, Endpoints: []kubetest.Endpoint{
		{Address: "10.0.0.1", Pod: "web-0", Node: "one", Hostname: "web-0", Zone: "a"},
		{Address: "10.0.0.2", NotReady: true, Serving: true, Terminating: true},
	}})
	writePods(c)
}

func writePods(c *kubetest.Cluster) {
	at := kubetest.PodPath("shop", "web-0")
	c.Apply(at, kubetest.Object{
		"apiVersion": "v1", "kind": "Pod", "metadata": kubetest.Object{
			"name": "web-0", "labels": kubetest.Object{"app": "web"}, "annotations": kubetest.Object{sidecarAnnotation: "{}", "other": "x"}, "finalizers": []string{"example.com/stays"},
		},
		"spec": kubetest.Object{"serviceAccountName": "web", "nodeName": "one", "containers": []kubetest.Object{{"name": "app", "image": "app"}}},
	})
	c.ApplyStatus(at, kubetest.Object{
		"apiVersion": "v1", "kind": "Pod", "metadata": kubetest.Object{"name": "web-0"},
		"status": kubetest.Object{"phase": "Running", "podIP": "10.0.0.1", "conditions": []kubetest.Object{{"type": "Ready", "status": "True"}}},
	})
	c.Delete(at)
}

// asks is a client of a cluster.
func asks(t *testing.T, c *kubetest.Cluster) *client.Client {
	t.Helper()
	at, err := url.Parse("https://" + c.Address)
	require.NoError(t, err)
	return &client.Client{Access: func() *kubeconfig.Access { return &kubeconfig.Access{Server: at} }, Transport: c.Transport(), Patience: 10 * time.Second}
}

func versionOf(t *testing.T, c *kubetest.Cluster, path string) string {
	t.Helper()
	version, err := asks(t, c).Version(t.Context(), path)
	require.NoError(t, err)
	return version
}

// sameBoth compares what a list has, and what has changed in it since. Between them, the objects have all
// fields but those named.
func sameBoth[T follow.Object](t *testing.T, c *kubetest.Cluster, path, since string, but ...string) {
	t.Helper()
	asJSON, compact := listed[T](t, c, path, false), listed[T](t, c, path, true)
	require.Equal(t, asJSON, compact)
	read := map[string]bool{}
	for _, o := range compact {
		fields(reflect.ValueOf(o), "", read)
	}
	for name, is := range read {
		require.NotEqual(t, is, slices.Contains(but, name), "no object of %s has %s, so nobody knows whether it is read: have one", path, name)
	}
	changes, same := changed[T](t, c, path, since, len(compact), false), changed[T](t, c, path, since, len(compact), true)
	require.Equal(t, changes, same)
}

func listed[T follow.Object](t *testing.T, c *kubetest.Cluster, path string, compact bool) (all []T) {
	t.Helper()
	objects := client.Objects{JSON: func(d *json.Decoder) error {
		require.False(t, compact, "protobuf is asked for, and JSON comes")
		var o T
		err := d.Decode(&o)
		all = append(all, o)
		return err
	}}
	if compact {
		objects.Protobuf = func(message []byte) error {
			var o T
			err := any(&o).(follow.Compact).ReadProtobuf(message)
			all = append(all, o)
			return err
		}
	}
	_, err := asks(t, c).List(t.Context(), path, objects)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

var errEnough = errors.New("enough was told")

// toldOf is an event with its object.
type toldOf[T any] struct {
	what   string
	object T
}

// changed are the changes since a version, until each of so many objects is as it is now.
func changed[T follow.Object](t *testing.T, c *kubetest.Cluster, path, since string, many int, compact bool) (all []toldOf[T]) {
	t.Helper()
	last := map[string]bool{}
	for _, o := range listed[T](t, c, path, false) {
		last[o.Version()] = true
	}
	require.Len(t, last, many)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := asks(t, c).Watch(ctx, path, since, compact, func() {}, func(e client.Event) error {
		var o T
		require.Equal(t, compact, e.Message != nil)
		if compact {
			require.NoError(t, any(&o).(follow.Compact).ReadProtobuf(e.Message))
		} else {
			require.NoError(t, json.Unmarshal(e.Object, &o))
		}
		all = append(all, toldOf[T]{e.Type, o})
		if delete(last, o.Version()); len(last) == 0 {
			return errEnough
		}
		return nil
	})
	require.ErrorIs(t, err, errEnough)
	return all
}

// fields says of each field of a value, by its name, whether it has ever been there.
func fields(v reflect.Value, name string, there map[string]bool) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			there[name] = there[name] || !v.IsZero()
			return
		}
		for i := range v.NumField() {
			fields(v.Field(i), name+"."+v.Type().Field(i).Name, there)
		}
	case reflect.Slice:
		there[name] = there[name] || v.Len() > 0
		for i := range v.Len() {
			fields(v.Index(i), name+"[]", there)
		}
	default:
		there[name] = there[name] || !v.IsZero()
	}
}
