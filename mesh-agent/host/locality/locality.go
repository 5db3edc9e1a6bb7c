// Package locality derives a machine's locality from instance metadata in files: the answers of the
// metadata services of AWS, GCP and Azure, or what cloud-init stores.
package locality

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// CloudInit is where cloud-init stores its instance metadata.
const CloudInit = "/run/cloud-init/instance-data.json"

// Of returns the locality in a file as region/zone. With an empty path it reads CloudInit, and
// returns "" if that does not exist, may not be read, or names no region.
func Of(file string) (string, error) {
	asked := file != ""
	if !asked {
		file = CloudInit
	}
	content, err := os.ReadFile(file)
	switch {
	case err != nil && !asked && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)):
		return "", nil
	case err != nil:
		return "", err
	}
	found, err := read(content)
	if err != nil && asked {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return found, nil
}

// document has the fields of all supported clouds; each metadata file fills only its own.
type document struct {
	// AWS, in the instance identity document.
	Region           string `json:"region"`
	AvailabilityZone string `json:"availabilityZone"`
	// GCP, of the instance, or of it and its project.
	Zone     string `json:"zone"`
	Instance struct {
		Zone string `json:"zone"`
	} `json:"instance"`
	// Azure.
	Compute struct {
		Location    string `json:"location"`
		Zone        string `json:"zone"`
		FaultDomain string `json:"platformFaultDomain"`
	} `json:"compute"`
	// cloud-init.
	V1 struct {
		Region           string `json:"region"`
		AvailabilityZone string `json:"availability_zone"`
	} `json:"v1"`
}

var errNothing = errors.New("it says nothing of a region: it has to be the JSON of an AWS instance identity document, of a GCP or Azure instance, or of cloud-init (instance-data.json)")

func read(content []byte) (string, error) {
	var d document
	if err := json.Unmarshal(content, &d); err != nil {
		return "", fmt.Errorf("it is not the JSON of a cloud: %w", err)
	}
	switch {
	case d.V1.Region != "" || d.V1.AvailabilityZone != "":
		return joined(regionOf(d.V1.Region, d.V1.AvailabilityZone), d.V1.AvailabilityZone), nil
	case d.Region != "":
		return joined(d.Region, d.AvailabilityZone), nil
	case d.Zone != "":
		return google(d.Zone), nil
	case d.Instance.Zone != "":
		return google(d.Instance.Zone), nil
	case d.Compute.Location != "":
		return joined(d.Compute.Location, d.Compute.Zone, d.Compute.FaultDomain), nil
	default:
		return "", errNothing
	}
}

// google takes a zone's full name, as in projects/123/zones/europe-west1-b.
func google(zone string) string {
	zone = path.Base(zone)
	return joined(regionOf("", zone), zone)
}

// regionOf returns region or, if that is empty, the part of zone before its last dash.
func regionOf(region, zone string) string {
	if i := strings.LastIndex(zone, "-"); region == "" && i > 0 {
		return zone[:i]
	}
	return region
}

// joined stops at the first empty part: a zone means nothing without its region.
func joined(parts ...string) string {
	for i, p := range parts {
		if p == "" {
			parts = parts[:i]
			break
		}
	}
	return strings.Join(parts, "/")
}
