package view

import (
	"cmp"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// ProxyConfig returns the configuration that the proxy was started with, or else the mesh's.
func (v View) ProxyConfig() *meshconfig.ProxyConfig {
	return cmp.Or(v.Proxy.Config, v.Config.GetDefaultConfig())
}

// HTTPProxyPort is where applications find their sidecar as an ordinary HTTP proxy (HTTP_PROXY=127.0.0.1:PORT), 0 if nowhere.
func (v View) HTTPProxyPort() uint32 {
	if v.Proxy.HTTPProxyPort != 0 {
		return v.Proxy.HTTPProxyPort
	}
	return uint32(v.Config.GetProxyHttpPort())
}

// CountsAttempts tells whether requests say which try they are.
func (v View) CountsAttempts() bool {
	return !v.ProxyConfig().GetProxyHeaders().GetAttemptCount().GetDisabled().GetValue()
}

// KeepsHost tells whether a request whose host is rewritten says what it was.
func (v View) KeepsHost() bool {
	return v.ProxyConfig().GetProxyHeaders().GetXForwardedHost().GetEnabled().GetValue()
}
