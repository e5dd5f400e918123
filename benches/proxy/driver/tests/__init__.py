"""What can be said of the driver without a proxy: python3 -m unittest discover -t . -s driver/tests"""
