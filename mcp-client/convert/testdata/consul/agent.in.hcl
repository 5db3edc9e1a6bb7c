# What an agent is configured with.
datacenter = "dc1"
bind_addr = "10.0.0.7"

service {
  name = "shop"
  port = 7070
  meta { protocol = "http" }
  connect {
    sidecar_service {
      proxy {
        upstreams = [
          { destination_name = "web", local_bind_port = 9191 }
        ]
      }
    }
  }
  check { http = "http://127.0.0.1:7070/health", interval = "5s" }
}

acl { enabled = true, default_policy = "deny" }
