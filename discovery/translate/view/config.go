package view

import (
	"cmp"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// ProxyConfig returns the configuration that the proxy was started with, or else the mesh's.
func (v View) ProxyConfig() *meshconfig.ProxyConfig {
	return cmp.Or(v.Proxy.Config, v.Config.GetDefaultConfig())
}

// HTTPProxyPort is where applications find their sidecar as an ordinary HTTP proxy
// (HTTP_PROXY=127.0.0.1:PORT), or 0.
func (v View) HTTPProxyPort() uint32 {
	if v.Proxy.HTTPProxyPort != 0 {
		return v.Proxy.HTTPProxyPort
	}
	return uint32(v.Config.GetProxyHttpPort())
}

// CountsAttempts reports whether requests say which try they are.
func (v View) CountsAttempts() bool {
	return !v.ProxyConfig().GetProxyHeaders().GetAttemptCount().GetDisabled().GetValue()
}

// KeepsHost reports whether a request whose host is rewritten says what it was.
func (v View) KeepsHost() bool {
	return v.ProxyConfig().GetProxyHeaders().GetXForwardedHost().GetEnabled().GetValue()
}
