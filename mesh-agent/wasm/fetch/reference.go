package fetch

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/pgmesh/pgmesh/internal/places"
)

// reference names an image.
type reference struct {
	host       string // of the registry, as in the URL
	repository string
	tag        string
	digest     string // as sha256:…; "" unless the URL has it
}

const (
	dockerHub    = "docker.io"
	dockerServer = "registry-1.docker.io" // which serves what is called docker.io
)

// Names as registries allow them. They become part of a path, in which nothing else may be.
var (
	repositoryName = regexp.MustCompile(`^[a-z0-9]+(?:[._/-]+[a-z0-9]+)*$`)
	tagName        = regexp.MustCompile(`^\w[\w.-]{0,127}$`)
)

// parseReference reads the URL of an image. Without a host, it is on Docker Hub; without a tag, it
// is the latest.
func parseReference(url string) (r reference, err error) {
	rest := strings.TrimPrefix(url, "oci://")
	host, repository, _ := strings.Cut(rest, "/")
	if !strings.ContainsAny(host, ".:") && host != "localhost" {
		host, repository = dockerHub, rest
	}
	repository, digest, pinned := strings.Cut(repository, "@")
	if at := strings.LastIndexByte(repository, ':'); at >= 0 {
		repository, r.tag = repository[:at], repository[at+1:]
	} else if !pinned {
		r.tag = latest
	}
	if host == dockerHub || host == "index.docker.io" {
		host = dockerHub
		if !strings.Contains(repository, "/") {
			repository = "library/" + repository
		}
	}
	r.host, r.repository, r.digest = host, repository, digest
	_, sha := hexDigest(digest)
	if !repositoryName.MatchString(repository) || len(repository) > 255 || r.tag != "" && !tagName.MatchString(r.tag) || pinned && !sha {
		return r, fmt.Errorf("%s names no image: write it as oci://HOST/REPOSITORY:TAG or oci://HOST/REPOSITORY@sha256:DIGEST", places.Shown(url))
	}
	return r, nil
}

const latest = "latest"

// Moving reports whether a URL names an image by the tag that moves, latest: it is asked about
// again by default.
func Moving(url string) bool {
	r, err := parseReference(url)
	return strings.HasPrefix(url, "oci://") && err == nil && r.digest == "" && r.tag == latest
}

// Pinned returns the digest that a URL names an image by, "" if it does not.
func Pinned(url string) string {
	r, err := parseReference(url)
	if !strings.HasPrefix(url, "oci://") || err != nil {
		return ""
	}
	digest, _ := hexDigest(r.digest)
	return digest
}

// version is what a registry is asked for: a digest, or a tag.
func (r reference) version() string {
	if r.digest != "" {
		return r.digest
	}
	return r.tag
}

// server is where the registry is.
func (r reference) server() string {
	if r.host == dockerHub {
		return dockerServer
	}
	return r.host
}
