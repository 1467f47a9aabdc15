"""Takes a frame to its handler: dispatch, context, authorization, quotas."""
