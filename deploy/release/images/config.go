package images

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pgmesh/pgmesh/deploy/containers/containerfile"
)

// configure has engines start the image as the Containerfile says.
func (m *Maker) configure(stage *containerfile.Stage, c *v1.Config) (err error) {
	c.User, c.WorkingDir = stage.Last("USER"), "/"
	c.Env = stage.All("ENV")
	if c.Entrypoint, err = stage.List("ENTRYPOINT"); err != nil {
		return err
	}
	if c.Cmd, err = stage.List("CMD"); err != nil {
		return err
	}
	c.Labels = map[string]string{}
	for _, label := range stage.All("LABEL") {
		name, value, _ := strings.Cut(label, "=")
		c.Labels[name] = strings.ReplaceAll(strings.Trim(value, `"`), "${VERSION}", m.Version)
	}
	for _, folder := range stage.All("VOLUME") {
		c.Volumes = with(c.Volumes, folder)
	}
	for _, port := range stage.All("EXPOSE") {
		c.ExposedPorts = with(c.ExposedPorts, port+"/tcp")
	}
	if check := stage.Last("HEALTHCHECK"); check != "" {
		c.Healthcheck, err = healthcheck(check)
	}
	return err
}

func with(set map[string]struct{}, word string) map[string]struct{} {
	if set == nil {
		set = map[string]struct{}{}
	}
	set[word] = struct{}{}
	return set
}

var checking = regexp.MustCompile(`^--interval=(\S+) --timeout=(\S+) --start-period=(\S+) CMD (\[.*\])$`)

func healthcheck(text string) (*v1.HealthConfig, error) {
	parts := checking.FindStringSubmatch(text)
	if parts == nil {
		return nil, fmt.Errorf("HEALTHCHECK %s is not understood", text)
	}
	var check v1.HealthConfig
	for i, into := range []*time.Duration{&check.Interval, &check.Timeout, &check.StartPeriod} {
		d, err := time.ParseDuration(parts[1+i])
		if err != nil {
			return nil, fmt.Errorf("HEALTHCHECK %s: %w", text, err)
		}
		*into = d
	}
	var command []string
	if err := json.Unmarshal([]byte(parts[4]), &command); err != nil {
		return nil, fmt.Errorf("HEALTHCHECK %s: %w", text, err)
	}
	check.Test = append([]string{"CMD"}, command...)
	return &check, nil
}
