package zookeeper_test

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/zookeepertest"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	authority := certtest.NewAuthority(t)
	folder := t.TempDir()
	ca := filepath.Join(folder, "ca.pem")
	certtest.WriteFile(t, ca, authority.PEM)
	pair := authority.Issue(nil)
	cert, key := pair.Write(t, folder)
	both := filepath.Join(folder, "server.pem")
	require.NoError(t, os.WriteFile(both, append(append([]byte{}, pair.Key...), pair.Cert...), 0o600))
	port, err := freeport.New()
	require.NoError(t, err)
	z := zookeepertest.Start(t, zookeepertest.Config{
		"serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory", "secureClientPort": strconv.Itoa(port), "secureClientPortAddress": "127.0.0.1",
		"ssl.keyStore.location": both, "ssl.trustStore.location": ca,
	})
	z.Put("/services/web/1", at("10.0.0.1"))
	secure := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	trusted := "&tls-ca=" + url.QueryEscape(ca)
	shown := trusted + "&tls-cert=" + url.QueryEscape(cert) + "&tls-key=" + url.QueryEscape(key)

	watch(t, secure, quick+shown).UntilThere(t, "zookeeper.web")
	watch(t, z.Address, quick+shown).UntilAway(t, "instead of speaking TLS: is this ZooKeeper's secureClientPort?")
	watch(t, secure, quick).UntilAway(t, "wants TLS")
	watch(t, secure, quick+"&tls=true").UntilAway(t, "certificate signed by unknown authority")
	watch(t, secure, quick+trusted).UntilAway(t, "remote error: tls: bad certificate")
}
