"""From a frame to a handler: dispatch, context, authorization, quotas."""
