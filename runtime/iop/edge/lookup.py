"""The config's models and providers by their ids: what each request is looked up in."""

from iop.config.models import ApiKey, EdgeConfig, Model
from iop.config.resources import Provider


class Lookup:
    """Indexes the config in force anew when it is another one. Not to be shared between event loops."""

    def __init__(self) -> None:
        self._config: EdgeConfig | None = None
        self._models: dict[str, Model] = {}
        self._providers: dict[str, Provider] = {}

    def model(self, config: EdgeConfig, model_id: str, key: ApiKey | None) -> Model | None:
        """Return the model of that id if this key may use it."""
        if key is not None and key.models is not None and model_id not in key.models:
            return None
        self._index(config)
        return self._models.get(model_id)

    def provider(self, config: EdgeConfig, provider_id: str) -> Provider | None:
        """Return the provider of that id."""
        self._index(config)
        return self._providers.get(provider_id)

    def engine_model(self, config: EdgeConfig, model_id: str, provider_id: str) -> str | None:
        """Return that provider's own name of a model of the pool; None if it does not serve it."""
        model = self.model(config, model_id, None)
        return None if model is None else model.providers.get(provider_id)

    def _index(self, config: EdgeConfig) -> None:
        if config is not self._config:
            self._config = config
            self._models = {model.id: model for model in config.models}
            self._providers = {provider.id: provider for node in config.nodes for provider in node.providers}
