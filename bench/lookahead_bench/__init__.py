"""What developers measure beside the lab: aims, and experiments on devices of their own making."""
