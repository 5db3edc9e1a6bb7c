package credential

import "encoding/json"

// registriesKey is the key of a configuration of Docker's.
const registriesKey = ".dockerconfigjson"

// RegistriesIn returns the configuration of Docker's in a secret: what each registry knows somebody
// by. It is nil if there is none.
func RegistriesIn(data map[string][]byte) []byte {
	if len(data[registriesKey]) == 0 {
		return nil
	}
	return data[registriesKey]
}

func (c *check) registries() {
	var config struct {
		Auths map[string]struct {
			Auth, Username, Password string
		}
	}
	if err := json.Unmarshal(c.data[registriesKey], &config); err != nil || len(config.Auths) == 0 {
		c.add(registriesKey, "names no registry", `write {"auths": {"REGISTRY": {"username": "NAME", "password": "PASSWORD"}}}, as docker login does`)
	}
}
