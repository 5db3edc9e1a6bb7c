config_entries {
  bootstrap = [
    {
      kind     = "service-defaults"
      name     = "web"
      protocol = "http"
    },
    {
      kind = "service-intentions"
      name = "web"
      sources = [
        {
          name   = "shop"
          action = "allow"
        },
        {
          name = "report"
          permissions = [
            {
              action = "deny"
              http { path_prefix = "/admin", methods = ["POST"] }
            },
            {
              action = "allow"
              http { path_prefix = "/", methods = ["GET", "POST"] }
            }
          ]
        },
        {
          name   = "*"
          action = "deny"
        }
      ]
    }
  ]
}

acl { default_policy = "allow" }
