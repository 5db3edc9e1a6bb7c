package message

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// OverADS asks for a resource on the stream that everything else comes by, and waits for as long as
// it takes.
func OverADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		InitialFetchTimeout:   NoDuration,
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}
}

// File reads a file of the proxy's machine.
func File(path string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
}

// Bytes is the content itself, or nil if there is none.
func Bytes(content []byte) *corev3.DataSource {
	if len(content) == 0 {
		return nil
	}
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: content}}
}

// Text is a text itself.
func Text(text string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}}
}
